// Options of the MongoDB sink, and what can be found wrong with its URL before the start.

import { type Static, Type } from 'typebox'
import type { Login } from '../options.ts'
import { formatOptions, retentionOptions } from '../options.ts'

const allowedUrl = 'a URL such as mongodb://user:password@host:27017/database, with more hosts after commas, or mongodb+srv://host/database'

/** The section `store`. */
export const sinkOptions = Type.Object({
  url: Type.String({
    pattern: '^mongodb(\\+srv)?://.',
    secret: true,
    environment: 'SVC_DOCUMENT_URL',
    allowed: allowedUrl,
    description: 'The MongoDB database that messages are stored in.',
  }),
  user: Type.Optional(Type.String({ minLength: 1, description: 'User to log in as; overrides the one in the URL.' })),
  password: Type.Optional(Type.String({ minLength: 1, secret: true, description: "That user's password." })),
  caFile: Type.Optional(
    Type.String({
      minLength: 1,
      description: "CA of the servers' certificates, as PEM; enables TLS.",
    }),
  ),
  certFile: Type.Optional(Type.String({ minLength: 1, description: 'Client certificate (mutual TLS), as PEM.' })),
  keyFile: Type.Optional(Type.String({ minLength: 1, description: 'Private key of that certificate, as PEM.' })),
  ...formatOptions,
  formatsMax: Type.Integer({
    ...formatOptions.formatsMax,
    description: 'Most JSON formats in the store, each a collection; a further one is a dead letter (`format-limit`).',
  }),
  writeConcern: Type.String({
    default: 'majority',
    pattern: '^(?!0+$)[A-Za-z0-9_.-]{1,64}$',
    allowed: '`majority`, a number of members from 1, or the name of a write concern of the replica set',
    description: 'How many members must have a row; with less than a majority rows are lost if the primary fails.',
  }),
  journal: Type.Boolean({
    default: true,
    description: 'Whether a row must be in the journal on disk to count as stored.',
  }),
  writesInFlight: Type.Integer({
    default: 4,
    minimum: 1,
    maximum: 64,
    description: 'Inserts of one worker in flight, of at most 1,000 rows each.',
  }),
  requestTimeoutMs: Type.Integer({
    default: 30_000,
    minimum: 500,
    maximum: 600_000,
    description: 'Milliseconds after which a request fails and is repeated.',
  }),
  connectTimeoutMs: Type.Integer({
    default: 5_000,
    minimum: 100,
    maximum: 120_000,
    description: 'Milliseconds to wait for a server that accepts writes.',
  }),
  retentionDays: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 36_500,
    description: 'Days of messages to keep; 0 keeps all.',
  }),
  ...retentionOptions,
})
export type SinkOptions = Static<typeof sinkOptions>

const databaseBytesMax = 63
const inPasswords = 'in a password write / ? # @ : % as %2F %3F %23 %40 %3A %25'

/** The parts of `scheme://[user[:password]@]hosts/database?parameters`. No `@` may follow the hosts: the text before it would be a password. */
const urlParts = /^mongodb(?<srv>\+srv)?:\/\/(?:(?<credentials>[^/?#]*)@)?(?<hosts>[^/?#@]*)(?:\/(?<database>[^?#@]*))?(?:\?[^#@]*)?$/

/** What can be found wrong with the URL. The sentences contain no secrets. */
export function urlFaults(url: string): { problem: string }[] {
  const parts = urlParts.exec(url)?.groups
  if (parts === undefined) return [{ problem: `it is invalid: write ${allowedUrl}; ${inPasswords}` }]
  const faults: { problem: string }[] = []
  const { srv, credentials, hosts = '', database = '' } = parts
  if (credentials !== undefined && !isDecodable(credentials)) {
    faults.push({ problem: 'its user or password contains a "%" that does not begin an encoded character: write "%25" for a percent sign' })
  }
  const problemOfHosts = hostsProblem(hosts, srv !== undefined)
  if (problemOfHosts !== undefined) faults.push({ problem: problemOfHosts })
  if (database === '') faults.push({ problem: 'it has no database: write it after the hosts, as in mongodb://host:27017/sluice' })
  else if (!isDatabaseName(database)) {
    faults.push({
      problem: `its database has an invalid name: use at most ${databaseBytesMax} letters, digits, - and _, and not admin, config or local, which are the server's own`,
    })
  }
  return faults
}

/** By option name, the values that are checked against publicly known secrets in production. */
export function secretsOf({ url, password }: Pick<SinkOptions, 'url' | 'password'>): Record<string, string | undefined> {
  return { 'store.url': credentialsOf(url).password, 'store.password': password }
}

/** The user and password in the URL. */
export function credentialsOf(url: string): Login {
  const credentials = urlParts.exec(url)?.groups?.['credentials']
  if (credentials === undefined) return {}
  const colon = credentials.indexOf(':')
  if (colon < 0) return { user: decoded(credentials) }
  return { user: decoded(credentials.slice(0, colon)), password: decoded(credentials.slice(colon + 1)) }
}

function hostsProblem(hosts: string, isSrv: boolean): string | undefined {
  if (hosts === '') return 'it has no host'
  const names = hosts.split(',')
  if (isSrv && (names.length > 1 || hosts.includes(':'))) return 'with mongodb+srv it may only have one host and no port: DNS has the rest'
  for (const name of names) {
    const [, port] = /^(?:\[[0-9A-Fa-f:.]+\]|[^:[\]]+)(?::(\d+))?$/.exec(name) ?? []
    const isHost = /^(\[[0-9A-Fa-f:.]+\]|[^:[\]\s]+)(:\d{1,5})?$/.test(name)
    if (!isHost || (port !== undefined && (Number(port) < 1 || Number(port) > 65_535))) {
      // It may be part of a password that contains a slash.
      return `one of its hosts is invalid: ${inPasswords}, and write host:port with a port from 1 to 65535`
    }
  }
  return undefined
}

/** MongoDB, "Naming Restrictions", including those for Windows. */
function isDatabaseName(text: string): boolean {
  const name = decoded(text)
  if (name === undefined || Buffer.byteLength(name) > databaseBytesMax || /[/\\. "$*<>:|?\0]/.test(name)) return false
  return !['admin', 'config', 'local'].includes(name.toLowerCase())
}

function isDecodable(text: string): boolean {
  return decoded(text) !== undefined
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
