"""What people read: query results, the final summary of a run, the HTML report."""
