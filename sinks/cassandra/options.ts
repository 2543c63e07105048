// Options of the Cassandra sink.

import { type Static, Type } from 'typebox'
import type { Login } from '../options.ts'
import { formatOptions, retentionOptions } from '../options.ts'

const consistencyNames = ['ONE', 'LOCAL_ONE', 'TWO', 'THREE', 'QUORUM', 'LOCAL_QUORUM', 'EACH_QUORUM', 'ALL'] as const
const serialConsistencyNames = ['SERIAL', 'LOCAL_SERIAL'] as const

export const sinkOptions = Type.Object({
  url: Type.String({
    pattern: '^cassandra://.',
    secret: true,
    environment: 'SVC_WIDECOLUMN_URL',
    allowed: 'a URL such as cassandra://host:9042,host:9042/keyspace?dc=datacenter1',
    description: 'Contact points, keyspace and nearest data center.',
  }),
  user: Type.Optional(Type.String({ minLength: 1, description: 'Role to log in as; overrides the one in the URL.' })),
  password: Type.Optional(Type.String({ minLength: 1, secret: true, description: "That role's password." })),
  tls: Type.Boolean({
    default: false,
    description: 'Encrypt connections; implied by `ca_file`, `cert_file` and `key_file`.',
  }),
  caFile: Type.Optional(Type.String({ minLength: 1, description: "CA of the nodes' certificates, as PEM, instead of the system's." })),
  certFile: Type.Optional(Type.String({ minLength: 1, description: 'Client certificate (mutual TLS), as PEM.' })),
  keyFile: Type.Optional(Type.String({ minLength: 1, description: 'Private key of that certificate, as PEM.' })),
  tlsName: Type.Optional(
    Type.String({
      minLength: 1,
      description: "Host name in the nodes' certificates, if they do not contain the address of each node.",
    }),
  ),
  consistency: Type.Enum([...consistencyNames], {
    default: 'LOCAL_QUORUM',
    description: 'How many replicas must have a row before it counts as stored.',
  }),
  serialConsistency: Type.Enum([...serialConsistencyNames], {
    default: 'SERIAL',
    description: 'Consistency of registrations; `LOCAL_SERIAL` only if all writers use one data center.',
  }),
  replication: Type.String({
    default: "{'class': 'SimpleStrategy', 'replication_factor': 1}",
    pattern: "^\\{( *'[A-Za-z0-9_.-]+' *: *('[A-Za-z0-9_./-]+'|[0-9]+) *,?)+ *\\}$",
    allowed: "a map of CQL such as {'class': 'NetworkTopologyStrategy', 'datacenter1': 3}",
    description: 'Replication of a keyspace that is created.',
  }),
  bucketDays: Type.Integer({
    default: 1,
    minimum: 1,
    maximum: 366,
    description: 'Days of a channel that share a partition. Fixed when the tables are created.',
  }),
  retentionDays: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 36_500,
    description: 'Days of messages to keep besides the current one; 0 keeps all.',
  }),
  ...retentionOptions,
  publisherIndex: Type.Boolean({
    default: true,
    description: "Index by publisher, so that one thing's messages are found at once; rows then cost the nodes two thirds more time.",
  }),
  requestsInFlightMax: Type.Integer({
    default: 256,
    minimum: 4,
    maximum: 2_000,
    description: 'Most requests of one worker in flight; halved for a while after an overload.',
  }),
  connectTimeoutMs: Type.Integer({
    default: 5_000,
    minimum: 100,
    maximum: 120_000,
    description: 'Milliseconds after which the next node is tried.',
  }),
  requestTimeoutMs: Type.Integer({
    default: 12_000,
    minimum: 500,
    maximum: 600_000,
    description: 'Milliseconds after which a request fails and is repeated.',
  }),
  ...formatOptions,
})
export type SinkOptions = Static<typeof sinkOptions>

/** What can be found wrong with the URL before the start. The sentences contain no secrets. */
export function urlFaults(url: string): { problem: string }[] {
  return problemsOfServerUrl(url).map(problem => ({ problem }))
}

/** By option name, the values that are checked against publicly known secrets in production. */
export function secretsOf({ url, password }: Pick<SinkOptions, 'url' | 'password'>): Record<string, string | undefined> {
  return { 'store.url': credentialsOf(url).password, 'store.password': password }
}

/** The user and password in the URL; empty if the URL is invalid. */
export function credentialsOf(url: string): Login {
  return problemsOfServerUrl(url).length === 0 ? readServerUrl(url) : {}
}

/** The parts of `cassandra://[user:password@]host[:port],host[:port]/keyspace?dc=datacenter1`, which `URL` cannot parse because of several hosts. */
export interface ServerUrl {
  /** `host:port` or `[address]:port`, at least one. */
  readonly contactPoints: readonly string[]
  /** The port of the first host; the driver uses it for all nodes that it discovers. */
  readonly port: number
  readonly keyspace: string
  readonly dataCenter: string
  readonly user: string | undefined
  readonly password: string | undefined
}

const defaultPort = 9042
/** Cassandra's default name of a data center. */
const defaultDataCenter = 'datacenter1'
const scheme = 'cassandra://'
const hostForm = /^(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})))(?::(\d{1,5}))?$/

/** Thrown by `readServerUrl`; its message contains no secret part of the URL. */
class ServerUrlFault extends Error {
  override readonly name = 'ServerUrlFault'
}

/** @throws ServerUrlFault that lists all problems, a sentence each */
export function readServerUrl(url: string): ServerUrl {
  const { server, problems } = analyse(url)
  if (problems.length > 0) throw new ServerUrlFault(problems.join('; '))
  return server
}

function problemsOfServerUrl(url: string): readonly string[] {
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
  // A password may contain an `@` that is not encoded; hosts never do.
  const [beforeQuery, query = ''] = splitAt(url.slice(scheme.length), '?', 'first')
  const [account, rest] = beforeQuery.includes('@') ? splitAt(beforeQuery, '@', 'last') : [undefined, beforeQuery]
  const [hosts, path = ''] = splitAt(rest ?? '', '/', 'first')
  const { user, password } = accountOf(account, problems)
  if (account?.includes('/') === true) problems.push('its user or password contains a "/": write %2F')
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
  if (user === '') problems.push('it has an "@" but no user before it')
  if (password === '') problems.push('it has a ":" after the user but no password')
  return { user: decoded(user, 'user', problems), password: password === undefined ? undefined : decoded(password, 'password', problems) }
}

function decoded(text: string, what: string, problems: string[]): string {
  try {
    return decodeURIComponent(text)
  } catch {
    problems.push(`its ${what} contains a "%" that does not begin an encoded character: write "%25" for a percent sign`)
    return text
  }
}

function hostsOf(text: string, problems: string[]): { contactPoints: string[]; port: number } {
  const contactPoints: string[] = []
  let firstPort = defaultPort
  for (const [nth, one] of text.split(',').entries()) {
    const found = hostForm.exec(one)
    const port = Number(found?.[3] ?? defaultPort)
    if (found === null) problems.push(`its host ${nth + 1} is invalid: write host, host:port or [IPv6 address]:port, separated by commas`)
    else if (port < 1 || port > 65_535) problems.push(`its host ${nth + 1} has an invalid port: use one from 1 to 65535`)
    else {
      if (contactPoints.length === 0) firstPort = port
      contactPoints.push(found[1] === undefined ? `${found[2]}:${port}` : `[${found[1]}]:${port}`)
    }
  }
  return { contactPoints, port: firstPort }
}

function keyspaceOf(path: string, problems: string[]): string {
  if (path === '') problems.push('it has no keyspace: write cassandra://host/keyspace')
  else if (!/^[A-Za-z0-9_]{1,48}$/.test(path)) problems.push('its keyspace is not 1 to 48 of the characters A-Z a-z 0-9 _')
  else if (/^system(_|$)|^dse_/.test(path)) problems.push("its keyspace is one of Cassandra's own: use another one")
  return path
}

function dataCenterOf(query: string, problems: string[]): string {
  const parameters = new URLSearchParams(query)
  // No parameter is quoted: if a password contains a "?" that is not encoded, the rest of it looks like parameters.
  if (query.includes('@'))
    problems.push('it has an "@" after a "?": write %3F for a ? in a user or password, and %40 for an @ in the data center')
  else if ([...parameters.keys()].some(name => name !== 'dc')) problems.push('it has an unknown parameter: only dc is allowed')
  const names = parameters.getAll('dc')
  if (names.length > 1) problems.push('it has more than one data center')
  if (names[0] === '') problems.push('its data center is empty: remove dc, or give a name')
  return names[0] ?? defaultDataCenter
}
