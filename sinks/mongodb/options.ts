// Options of the MongoDB sink, and what can be known to be wrong with its URL.

import { type Static, Type } from 'typebox'
import { formatOptions } from '../format-registry.ts'
import type { Login } from '../login.ts'

const allowedUrl =
  'a URL such as mongodb://user:password@host:27017/database, with more hosts behind commas, or mongodb+srv://host/database'

/** The section `store` of a writer to the document store. */
export const sinkOptions = Type.Object({
  url: Type.String({
    pattern: '^mongodb(\\+srv)?://.',
    secret: true,
    environment: 'SVC_DOCUMENT_URL',
    allowed: allowedUrl,
    description:
      'The MongoDB database that messages are stored in. Of its parameters, `w`, `journal`, `retryWrites` and `readPreference` do not count.',
  }),
  user: Type.Optional(Type.String({ minLength: 1, description: 'Its user; counts more than that of the URL.' })),
  password: Type.Optional(Type.String({ minLength: 1, secret: true, description: "That user's password." })),
  caFile: Type.Optional(
    Type.String({
      minLength: 1,
      description: "Authority of the servers' certificates, as PEM, in place of the system's. Switches TLS on.",
    }),
  ),
  certFile: Type.Optional(Type.String({ minLength: 1, description: 'Certificate to show to the servers (mutual TLS), as PEM.' })),
  keyFile: Type.Optional(Type.String({ minLength: 1, description: 'Private key of that certificate, as PEM.' })),
  ...formatOptions,
  formatsMax: Type.Integer({
    ...formatOptions.formatsMax,
    description: 'JSON formats in the whole store, each a collection. A message of one more is a dead letter (rule `format-limit`).',
  }),
  writeConcern: Type.String({
    default: 'majority',
    pattern: '^(?!0+$)[A-Za-z0-9_.-]{1,64}$',
    allowed: '`majority`, a number of members from 1, or the name of a write concern of the replica set',
    description: 'How many members have a row before it counts as stored. With less than a majority, rows are lost when the primary is.',
  }),
  journal: Type.Boolean({ default: true, description: 'A row counts as stored when it is in the journal on disk, not only in memory.' }),
  writesInFlight: Type.Integer({
    default: 4,
    minimum: 1,
    maximum: 64,
    description: 'Inserts that one worker sends at once; each holds at most 1,000 rows.',
  }),
  requestTimeoutMs: Type.Integer({
    default: 30_000,
    minimum: 500,
    maximum: 600_000,
    description: 'Milliseconds after which a request without an answer is given up; its batch is written again.',
  }),
  connectTimeoutMs: Type.Integer({
    default: 5_000,
    minimum: 100,
    maximum: 120_000,
    description: 'Milliseconds in which a server has to be found that takes writes, and in which a connection has to stand.',
  }),
  retentionDays: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 36_500,
    description:
      'Days for which messages are kept, by the time of a record and by when a document was created; older ones are deleted. 0 keeps all.',
  }),
})
export type SinkOptions = Static<typeof sinkOptions>

const databaseBytesMax = 63
const inPasswords = 'in a password write / ? # @ : % as %2F %3F %23 %40 %3A %25'

/** Of `scheme://[user[:password]@]hosts/database?parameters`. Behind the hosts there is no `@`: what stands before it would be a password. */
const urlParts = /^mongodb(?<srv>\+srv)?:\/\/(?:(?<credentials>[^/?#]*)@)?(?<hosts>[^/?#@]*)(?:\/(?<database>[^?#@]*))?(?:\?[^#@]*)?$/

/** What is wrong with the URL, as far as that can be seen in it; nothing secret of it is in the sentences. */
export function urlFaults(url: string): { problem: string }[] {
  const parts = urlParts.exec(url)?.groups
  if (parts === undefined) return [{ problem: `it cannot be read: give ${allowedUrl}; ${inPasswords}` }]
  const faults: { problem: string }[] = []
  const { srv, credentials, hosts = '', database = '' } = parts
  if (credentials !== undefined && !isDecodable(credentials)) {
    faults.push({ problem: 'its user or password has a % that begins no character: write it as %25' })
  }
  const problemOfHosts = hostsProblem(hosts, srv !== undefined)
  if (problemOfHosts !== undefined) faults.push({ problem: problemOfHosts })
  if (database === '') faults.push({ problem: 'it names no database: write it behind the hosts, as in mongodb://host:27017/sluice' })
  else if (!isDatabaseName(database)) {
    faults.push({
      problem: `its database cannot be one: use at most ${databaseBytesMax} letters, digits, - and _, and not admin, config or local, which are the server's own`,
    })
  }
  return faults
}

/** What `env = production` compares with the publicly known secrets, by the option's name. */
export function secretsOf({ url, password }: Pick<SinkOptions, 'url' | 'password'>): Record<string, string | undefined> {
  return { 'store.url': credentialsOf(url).password, 'store.password': password }
}

/** What the URL says of who comes. */
export function credentialsOf(url: string): Login {
  const credentials = urlParts.exec(url)?.groups?.['credentials']
  if (credentials === undefined) return {}
  const colon = credentials.indexOf(':')
  if (colon < 0) return { user: decoded(credentials) }
  return { user: decoded(credentials.slice(0, colon)), password: decoded(credentials.slice(colon + 1)) }
}

function hostsProblem(hosts: string, isSrv: boolean): string | undefined {
  if (hosts === '') return 'it names no host'
  const names = hosts.split(',')
  if (isSrv && (names.length > 1 || hosts.includes(':'))) return 'with mongodb+srv it names one host and no port: the DNS knows the rest'
  for (const name of names) {
    const [, port] = /^(?:\[[0-9A-Fa-f:.]+\]|[^:[\]]+)(?::(\d+))?$/.exec(name) ?? []
    const isHost = /^(\[[0-9A-Fa-f:.]+\]|[^:[\]\s]+)(:\d{1,5})?$/.test(name)
    if (!isHost || (port !== undefined && (Number(port) < 1 || Number(port) > 65_535))) {
      // It may be a part of a password that holds a slash.
      return `one of its hosts cannot be read: ${inPasswords}, and give host:port with a port from 1 to 65535`
    }
  }
  return undefined
}

/** MongoDB, "Naming Restrictions", those of Windows among them. */
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
