// Loads the Kafka client when it is first needed, and only the parts that this project uses.

import { readFileSync } from 'node:fs'
import { createRequire, type LoadHookSync, type ResolveHookSync, registerHooks } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type * as client from '@platformatic/kafka'

/** What this project uses of the client. */
const names = [
  'Admin',
  'Connection',
  'FetchIsolationLevels',
  'ListOffsetTimestamps',
  'ProtocolError',
  'Reader',
  'Writer',
  'apiVersionsV0',
  'createAPI',
  'describeGroupsV5',
  'fetchV13',
  'findCoordinatorV3',
  'heartbeatV4',
  'initProducerIdV0',
  'joinGroupV7',
  'joinGroupV9',
  'kGetApi',
  'kGetBootstrapConnection',
  'kGetConnection',
  'leaveGroupV4',
  'listOffsetsV7',
  'metadataV12',
  'offsetCommitV8',
  'offsetFetchV7',
  'protocolErrorsCodesById',
  'syncGroupV5',
] as const satisfies readonly (keyof typeof client)[]
export type KafkaClient = Pick<typeof client, (typeof names)[number]>

/** Requests that `Admin` and the connections send in the version that the broker knows. */
const requestsOfAdmin = [
  'apiVersions',
  'createTopics',
  'deleteGroups',
  'describeGroups',
  'findCoordinator',
  'listOffsets',
  'metadata',
  'offsetCommit',
  'offsetFetch',
  'saslAuthenticate',
  'saslHandshake',
]
const requestExport = /^export \* as (\w+?)(V\d+) from /
/** Files of the package, each with all that it loads, which none of the names needs. */
const unused = ['clients/consumer/index.js', 'clients/producer/index.js', 'clients/serde.js', 'protocol/murmur2.js', 'registries/index.js']
const fileExport = /^export \* from "(.+)";$/

const require = createRequire(import.meta.url)
const index = pathToFileURL(require.resolve('@platformatic/kafka')).href
const folder = new URL('.', index).href
/** At the end of the URL of each of its modules: others in this process who import the client load it whole. */
const mark = '?parts'
/** The index has another name instead: `require` knows a module by its path. */
const entry = new URL('parts.js', folder).href

const resolve: ResolveHookSync = (specifier, context, next) => {
  if (specifier === '@platformatic/kafka') return { url: entry, format: 'module', shortCircuit: true }
  if (!context.parentURL?.startsWith(folder)) return next(specifier, context)
  if (specifier === 'ajv/dist/2020.js') return next(new URL('later-ajv.ts', import.meta.url).href, context)
  const resolved = next(specifier, context)
  return resolved.url.startsWith(folder) ? { ...resolved, url: resolved.url + mark } : resolved
}

const load: LoadHookSync = (url, context, next) => {
  const isIndex = url === entry || (url.startsWith(folder) && url.endsWith(`/index.js${mark}`))
  if (!isIndex) return next(url, context)
  const file = fileURLToPath(url === entry ? index : url)
  return { format: 'module', shortCircuit: true, source: usedLines(url, readFileSync(file, 'utf8')) }
}

/** An index of the package without the files that are not used. */
function usedLines(url: string, source: string): string {
  const isUsed = (line: string): boolean => {
    const [, file] = fileExport.exec(line) ?? []
    if (file !== undefined) return !unused.includes(new URL(file, url).href.slice(folder.length))
    const [, request, version] = requestExport.exec(line) ?? []
    return request === undefined || requestsOfAdmin.includes(request) || (names as readonly string[]).includes(request + version)
  }
  return source.split('\n').filter(isUsed).join('\n')
}

let loaded: KafkaClient | undefined

/**
 * The client. Whole, it is 500 files in every thread, most of which are requests that this project does not send, a schema registry and Ajv:
 * half of the 0.3 s of CPU that loading it takes. Loading is synchronous, so no other module is loaded by these hooks.
 */
export function loadClient(): KafkaClient {
  if (loaded !== undefined) return loaded
  const hooks = registerHooks({ resolve, load })
  try {
    loaded = require('@platformatic/kafka') as KafkaClient
  } finally {
    hooks.deregister()
  }
  return loaded
}
