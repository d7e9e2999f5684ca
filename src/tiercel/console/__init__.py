"""The console in the browser: files that the HTTP API serves below /console/. Start with app.js."""
