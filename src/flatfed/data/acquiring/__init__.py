"""Getting the official files of data sets, checking data sets, and finding which are in place."""
