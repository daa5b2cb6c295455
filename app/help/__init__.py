"""Pages behind the settings: the check of this computer and the logs."""
