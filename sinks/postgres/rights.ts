// What a writer does without: months that cannot be made now, and tables that its role may not make; and what an operator is told.

import { type Database, DatabaseError } from '../../config/postgres/database.ts'
import { makeMonths } from './schema.ts'

/** True for 42501, insufficient_privilege. */
export function isDenied(error: unknown): error is DatabaseError {
  return error instanceof DatabaseError && error.sqlState === '42501'
}

/**
 * Makes the months that are missing, where the role may and nobody is in the way (a dump, say); without them rows lie in the default
 * partition until somebody makes them, so no writer waits for one.
 *
 * @returns what cannot be done, and what then happens, a sentence each
 * @throws DatabaseError where the table `messages` is missing, or the server away
 */
export async function shortcomings(database: Database, retentionMonths: number): Promise<string[]> {
  const sentences: string[] = []
  const { failure } = await makeMonths(database, { retentionMonths })
  if (failure !== undefined) {
    const until = isDenied(failure)
      ? 'the owner of the table starts a writer, or does what sinks/postgres/README.md says'
      : 'they are made, which is tried again daily and when a writer starts'
    sentences.push(
      `months of the table messages cannot be made (${failure.message}): their rows go to sluice.messages_default until ${until}`,
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
