// Reads `cassandra://[user:password@]host[:port],host[:port]/keyspace?dc=datacenter1`, which the platform's URL cannot: it has several hosts.

export interface ServerUrl {
  /** `host:port` or `[address]:port`, at least one. */
  readonly contactPoints: readonly string[]
  /** Of the first host; the driver takes it for the nodes that it finds by itself. */
  readonly port: number
  readonly keyspace: string
  readonly dataCenter: string
  readonly user: string | undefined
  readonly password: string | undefined
}

const defaultPort = 9042
/** What a cluster calls its data center where nobody gave it a name. */
const defaultDataCenter = 'datacenter1'
const scheme = 'cassandra://'
const hostForm = /^(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})))(?::(\d{1,5}))?$/

/** Thrown by `readServerUrl`; its message holds no part of the URL that may be secret. */
export class ServerUrlFault extends Error {
  override readonly name = 'ServerUrlFault'
}

/** @throws ServerUrlFault with all that is wrong, a sentence each */
export function readServerUrl(url: string): ServerUrl {
  const { server, problems } = analyse(url)
  if (problems.length > 0) throw new ServerUrlFault(problems.join('; '))
  return server
}

export function problemsOfServerUrl(url: string): readonly string[] {
  return analyse(url).problems
}

function analyse(url: string): { server: ServerUrl; problems: string[] } {
  const problems: string[] = []
  const nowhere = {
    contactPoints: [],
    port: defaultPort,
    keyspace: '',
    dataCenter: defaultDataCenter,
    user: undefined,
    password: undefined,
  }
  if (!url.startsWith(scheme)) return { server: nowhere, problems: ['it does not begin with cassandra://'] }
  // A password may hold an `@` that was not encoded: hosts never do.
  const [beforeQuery, query = ''] = splitAt(url.slice(scheme.length), '?', 'first')
  const [account, rest] = beforeQuery.includes('@') ? splitAt(beforeQuery, '@', 'last') : [undefined, beforeQuery]
  const [hosts, path = ''] = splitAt(rest ?? '', '/', 'first')
  const { user, password } = accountOf(account, problems)
  if (account?.includes('/') === true) problems.push('its user or password holds a "/": write %2F')
  const { contactPoints, port } = hostsOf(hosts, problems)
  const keyspace = keyspaceOf(path, problems)
  const dataCenter = dataCenterOf(query, problems)
  return { server: { contactPoints, port, keyspace, dataCenter, user, password }, problems }
}

function splitAt(text: string, character: string, which: 'first' | 'last'): [string, string | undefined] {
  const at = which === 'first' ? text.indexOf(character) : text.lastIndexOf(character)
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)]
}

function accountOf(account: string | undefined, problems: string[]): { user: string | undefined; password: string | undefined } {
  if (account === undefined) return { user: undefined, password: undefined }
  const [user, password] = splitAt(account, ':', 'first')
  if (user === '') problems.push('it has an "@" and no user before it')
  if (password === '') problems.push('it has a ":" behind the user and no password after it')
  return { user: decoded(user, 'user', problems), password: password === undefined ? undefined : decoded(password, 'password', problems) }
}

function decoded(text: string, what: string, problems: string[]): string {
  try {
    return decodeURIComponent(text)
  } catch {
    problems.push(`its ${what} holds a "%" that begins no encoded character: write "%25" for a percent sign`)
    return text
  }
}

function hostsOf(text: string, problems: string[]): { contactPoints: string[]; port: number } {
  const contactPoints: string[] = []
  let firstPort = defaultPort
  for (const [nth, one] of text.split(',').entries()) {
    const found = hostForm.exec(one)
    const port = Number(found?.[3] ?? defaultPort)
    if (found === null) problems.push(`host ${nth + 1} of it is none: write host, host:port or [IPv6 address]:port, with commas between`)
    else if (port < 1 || port > 65_535) problems.push(`host ${nth + 1} of it has a port that cannot be: give one from 1 to 65535`)
    else {
      if (contactPoints.length === 0) firstPort = port
      contactPoints.push(found[1] === undefined ? `${found[2]}:${port}` : `[${found[1]}]:${port}`)
    }
  }
  return { contactPoints, port: firstPort }
}

function keyspaceOf(path: string, problems: string[]): string {
  if (path === '') problems.push('it names no keyspace: write cassandra://host/keyspace')
  else if (!/^[A-Za-z0-9_]{1,48}$/.test(path)) problems.push('its keyspace is not 1 to 48 of the characters A-Z a-z 0-9 _')
  else if (/^system(_|$)|^dse_/.test(path)) problems.push("its keyspace is one of Cassandra's own: give another")
  return path
}

function dataCenterOf(query: string, problems: string[]): string {
  const parameters = new URLSearchParams(query)
  // Nothing of it is said: where a password holds a "?" that was not encoded, its rest is taken for parameters.
  if (query.includes('@'))
    problems.push('it has an "@" behind a "?": write %3F for a ? in a user or password, and %40 for an @ in the data center')
  else if ([...parameters.keys()].some(name => name !== 'dc')) problems.push('it has a parameter other than dc, which alone is known')
  const names = parameters.getAll('dc')
  if (names.length > 1) problems.push('it names the data center twice')
  if (names[0] === '') problems.push('its data center is empty: leave dc out, or give the name')
  return names[0] ?? defaultDataCenter
}
