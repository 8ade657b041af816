"""The command line. Modules here import torch only inside commands, so that help is quick."""
