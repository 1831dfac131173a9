"""What the images hold, and under which licences."""
