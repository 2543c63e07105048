// The URL of a PostgreSQL server as an option: its password, and what is wrong with it before anybody connects.

import type { OptionFault } from './option-faults.ts'

/** The password of a URL, as it is sent: of its query, as the driver has it, else of its user; undefined where there is none. */
export function passwordOf(url: string): string | undefined {
  if (!URL.canParse(url)) return undefined
  const { password, searchParams } = new URL(url)
  const text = searchParams.get('password') || (decoded(password) ?? password)
  return text === '' ? undefined : text
}

/** What the driver would throw at the first connection, or take for something else. No fault shows a part of the URL. */
export function databaseUrlFaults(place: string, url: string): OptionFault[] {
  if (!URL.canParse(url)) {
    return [{ place, problem: 'cannot be read: give a URL such as postgres://user:password@host:5432/database' }]
  }
  const { username: user, password, pathname: database, search: query } = new URL(url)
  return Object.entries({ user, password, database, query })
    .filter(([, text]) => decoded(text) === undefined)
    .map(([part]) => ({ place, problem: `its ${part} holds a % that is not an escape: write %25` }))
}

/** undefined where a % begins no escape, or escapes are no UTF-8. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
