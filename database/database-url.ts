// Checks the option that holds the URL of a PostgreSQL server before anything connects, and extracts its password.

import type { OptionFault } from '../config/options/faults.ts'

/** The password that is sent: from the query of the URL, as in the driver, else from its user part; undefined if there is none. */
export function passwordOf(url: string): string | undefined {
  if (!URL.canParse(url)) return undefined
  const { password, searchParams } = new URL(url)
  const text = searchParams.get('password') || (decoded(password) ?? password)
  return text === '' ? undefined : text
}

/** Faults on which the driver would throw at the first connection, or which it would misread. No fault shows a part of the URL. */
export function databaseUrlFaults(place: string, url: string): OptionFault[] {
  if (!URL.canParse(url)) {
    return [{ place, problem: 'cannot be read: give a URL such as postgres://user:password@host:5432/database' }]
  }
  const { username: user, password, pathname: database, search: query } = new URL(url)
  return Object.entries({ user, password, database, query })
    .filter(([, text]) => decoded(text) === undefined)
    .map(([part]) => ({ place, problem: `its ${part} contains a % that is not an escape: write %25` }))
}

/** undefined if a % starts no escape, or the escapes are not UTF-8. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
