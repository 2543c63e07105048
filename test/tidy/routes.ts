// The platform's routes, registered like by `./sluice up` but without implementations, for the tables in docs/reference/http.md.

import { Registry } from 'prom-client'
import { createLogger } from '../../config/logger.ts'
import { markdownTable } from '../../config/options/options.ts'
import { openUpConsole } from '../../console/up-console.ts'
import { prepareControlPlane } from '../../control-plane/index.ts'
import { healthRoutes } from '../../http/health/health.ts'
import { homeRoute } from '../../http/home.ts'
import { openapiRoutes } from '../../http/openapi/openapi.ts'
import { createServer } from '../../http/server.ts'
import { auditRoutes } from '../../pipeline/audit/routes.ts'
import { deadLetterRoutes } from '../../pipeline/dead-letters/routes.ts'
import { eraseRoutes } from '../../pipeline/erase/routes.ts'
import { brokerRoutes } from '../../pipeline/ingest/brokers/routes.ts'
import { ingestRoutes } from '../../pipeline/ingest/routes.ts'
import { liveRoutes } from '../../readers/live/routes.ts'
import { readerRoutes } from '../../readers/routes.ts'
import { loadUpOptions } from '../../up-options.ts'

/** Stands for every part that answers requests, none of which is used for the table. */
const nothing: never = new Proxy(() => undefined, { get: (_target, key) => (key === 'then' ? undefined : nothing) }) as never

interface Operation {
  readonly tags: readonly [string]
  readonly summary: string
  readonly security?: readonly Readonly<Record<string, unknown>>[]
}

interface Document {
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

async function describe(): Promise<Document> {
  const logger = createLogger({ level: 'silent', pretty: false })
  const options = loadUpOptions({ environment: {} })
  const app = createServer({ logger })
  openapiRoutes(app, { version: '0' })
  homeRoute(app, { version: '0', services: [], hasMetrics: true })
  healthRoutes(app, { version: '0', checks: {}, ready: () => true, registry: new Registry() })
  app.register(prepareControlPlane({ database: nothing, masterKeys: [Buffer.alloc(32)], options, logger }).routes)
  app.register(ingestRoutes({ log: nothing, logLabel: nothing, access: nothing, metrics: nothing, options: options.ingest }))
  app.register(brokerRoutes({ access: nothing, brokers: [], logger }))
  app.register(readerRoutes({ reader: nothing, access: nothing, key: new Uint8Array(32), options: options.reader, queriesAtOnce: 1 }))
  const live = { live: nothing, access: nothing, eventIdKey: Buffer.alloc(32), options: options.live, metrics: nothing, logger }
  app.register(liveRoutes(live))
  app.register(deadLetterRoutes(nothing, nothing, nothing))
  app.register(eraseRoutes(nothing, nothing, nothing))
  app.register(auditRoutes(nothing, nothing))
  app.register(openUpConsole(nothing).routes)
  return (await app.inject('/openapi.json')).json<Document>()
}

/** The name of a caller, by the security scheme. */
const callers: Readonly<Record<string, string>> = { user: 'user', thing: 'thing', external: 'device with an external key' }

function callersOf({ security = [] }: Operation): string {
  if (security.length === 0) return 'anyone'
  return security.map(one => callers[Object.keys(one)[0] ?? ''] ?? 'anyone').join(', ')
}

/** A table for each tag of the API, in order, below a heading and the tag's description. */
export async function routeTables(): Promise<string> {
  const { tags, paths } = await describe()
  const all = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ route: `${method.toUpperCase()} ${path}`, operation })),
  )
  const sections = tags.map(({ name, description }) => {
    const routes = all.filter(({ operation }) => operation.tags[0] === name)
    const callers = [...new Set(routes.map(({ operation }) => callersOf(operation)))]
    const rows = routes.map(({ route, operation }) => [`\`${route}\``, callersOf(operation), operation.summary])
    const table =
      callers.length === 1
        ? `Caller: ${callers[0]}.\n\n${markdownTable(
            ['Route', 'Meaning'],
            rows.map(row => row.toSpliced(1, 1)),
          )}`
        : markdownTable(['Route', 'Caller', 'Meaning'], rows)
    return `### Routes: ${name}\n\n${description}${callers.length === 1 ? ' ' : '\n\n'}${table}`
  })
  return sections.join('\n\n')
}
