"""What ./dev does, one concern a file. main.py is the list of commands."""
