// A role that may write but not create: what it does without, and what an operator is told.

import { type Database, DatabaseError } from '../../config/postgres/database.ts'
import { maintain } from './schema.ts'

/** True for 42501, insufficient_privilege. */
export function isDenied(error: unknown): error is DatabaseError {
  return error instanceof DatabaseError && error.sqlState === '42501'
}

/**
 * Makes the months that are missing, where the role may; without them rows lie in the default partition until somebody makes them.
 *
 * @returns what the role may not do, and what then happens, a sentence each
 */
export async function missingRights(database: Database): Promise<string[]> {
  const sentences: string[] = []
  try {
    await maintain(database)
  } catch (error) {
    if (!isDenied(error)) throw error
    sentences.push(
      `months of the table messages cannot be made (${error.message}): their rows go to sluice.messages_default until the owner of the table starts a writer, or does what sinks/postgres/README.md says`,
    )
  }
  const [right] = await database.query<{ create: boolean; role: string }>(
    `SELECT has_schema_privilege('formats', 'CREATE') AS create, current_user::text AS role`,
  )
  if (right?.create !== true) {
    sentences.push(
      `the role "${right?.role}" may make no tables for JSON formats: messages of new formats become dead letters (rule format-not-allowed). Allow it by GRANT CREATE ON SCHEMA formats TO "${right?.role}"`,
    )
  }
  return sentences
}

/** A denied right with where to read what is needed; every other error as it is. */
export function explained(error: unknown): unknown {
  if (!isDenied(error)) return error
  return new DatabaseError(`${error.message}: give the writer's role the rights that sinks/postgres/README.md lists`, {
    sqlState: error.sqlState,
    cause: error,
  })
}
