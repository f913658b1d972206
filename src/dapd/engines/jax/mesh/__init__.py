"""M on several devices; imported only if there is a mesh."""
