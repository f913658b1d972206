"""Which compiled functions a profile of JAX says were called."""

import jax


def calls(folder):
    """The compiled functions that were called, each eager operation one of them."""
    (file,) = folder.glob("**/*.xplane.pb")
    planes = jax.profiler.ProfileData.from_file(str(file)).planes
    events = (event for plane in planes for line in plane.lines for event in line.events)
    return [event.name for event in events if event.name.startswith("PjitFunction")]
