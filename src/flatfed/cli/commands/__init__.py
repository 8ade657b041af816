"""The subcommands that train, show and measure."""
