"""How the application looks: design tokens become a palette, a stylesheet, fonts and icons."""
