"""The paper's artefact, built on the public interface: experiments, lower bounds, figures and tables."""
