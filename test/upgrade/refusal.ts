// How a release refuses a database that a newer one has migrated: in the words that the guide shows.

export const refusal =
  /which this release does not know: a newer release applied it\. Start that release, or restore a backup of the database from before it/
