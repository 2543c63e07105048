// What an answer of PostgreSQL means for a batch, by its SQLSTATE (PostgreSQL manual, "PostgreSQL Error Codes"). README.md shows this table.

/**
 * - transient: the same write is tried again, for ever
 * - data: in a COPY, a row can never be stored: its message is rejected. Anywhere else it is systemic
 * - systemic: the writer stops
 */
export type SqlStateMeaning = 'transient' | 'data' | 'systemic'

export interface SqlStateRow {
  /** What the SQLSTATE begins with; the longest beginning counts. Empty: there was no answer. */
  readonly state: string
  readonly name: string
  readonly meaning: SqlStateMeaning
}

/** What is not listed is systemic. */
export const sqlStates: readonly SqlStateRow[] = [
  { state: '', name: 'the connection failed', meaning: 'transient' },
  { state: '08', name: 'connection exception', meaning: 'transient' },
  { state: '25', name: 'invalid transaction state: the server is read-only, say, after a failover', meaning: 'transient' },
  { state: '40', name: 'transaction rollback: a deadlock', meaning: 'transient' },
  { state: '53', name: 'insufficient resources: the disk is full, too many connections', meaning: 'transient' },
  { state: '55', name: 'object not in prerequisite state: a lock was not had in time', meaning: 'transient' },
  { state: '57', name: 'operator intervention: a statement timeout, a shutdown', meaning: 'transient' },
  { state: '58', name: 'system error: a file of the server is missing or cannot be read', meaning: 'transient' },
  { state: '22', name: 'data exception: a NUL, a number out of range', meaning: 'data' },
  { state: '54000', name: 'program limit exceeded: a value is too large for an index', meaning: 'data' },
  { state: '22P03', name: 'invalid binary representation: a column has another type than ours', meaning: 'systemic' },
  { state: '22P04', name: 'bad COPY file format: a column has another type than ours', meaning: 'systemic' },
  { state: '23', name: 'integrity constraint violation: a constraint that is not ours', meaning: 'systemic' },
  { state: '28', name: 'invalid authorization: the role or its password', meaning: 'systemic' },
  { state: '3D', name: 'the database is missing', meaning: 'systemic' },
  { state: '42', name: 'a table or column is missing, or a right', meaning: 'systemic' },
]

export function meaningOf(sqlState: string): SqlStateMeaning {
  if (sqlState === '') return 'transient'
  let found: SqlStateRow | undefined
  for (const row of sqlStates) {
    if (row.state !== '' && sqlState.startsWith(row.state) && row.state.length > (found?.state.length ?? 0)) found = row
  }
  return found?.meaning ?? 'systemic'
}
