// A server of the benchmark, in a process of its own: the routes of ingest on a log, or a bare `node:http` server with the answers that they give.

import { once } from 'node:events'
import { createServer as createBareServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { Value } from 'typebox/value'
import { cacheAccess } from '../../../control-plane/access/cache.ts'
import { createServer } from '../../../http/server.ts'
import { openEmbeddedLog } from '../../../pipeline/embedded-log/log.ts'
import { openIngestMetrics } from '../../../pipeline/ingest/metrics.ts'
import { ingestOptions } from '../../../pipeline/ingest/options.ts'
import { ingestRoutes } from '../../../pipeline/ingest/routes.ts'
import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import type { Log } from '../../../pipeline/log.ts'
import { logSettings } from '../../../test/pipeline/kafka/stored-messages.ts'

export type Settings =
  | { readonly kind: 'bare' /** By content type. */; readonly answers: Readonly<Record<string, Answer>> }
  | { readonly kind: 'embedded'; readonly folder: string }
  | { readonly kind: 'kafka'; readonly brokers: readonly string[]; readonly topic: string }

export interface Answer {
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

const logger = pino({ level: 'silent' })

/** @returns its port */
async function serveBare(answers: Readonly<Record<string, Answer>>): Promise<number> {
  const server = createBareServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks)
      const { headers, text } = answers[request.headers['content-type']!]!
      response.writeHead(body.length > 0 ? 202 : 400, headers).end(text)
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return (server.address() as AddressInfo).port
}

/** Whoever publishes may; as on a platform, the answer of the control plane is remembered. */
async function serveIngest(log: Log): Promise<number> {
  const access = cacheAccess(
    {
      authorize: async () => ({ allowed: true, publisher: 'b8f0f0b5-2f0c-4a7f-a7a4-0f9c4c1d1e52', owner: 'user' }),
      deletedChannels: async () => [],
      onChange: () => () => undefined,
    },
    { lifetimeMs: 5_000, entriesMax: 1000 },
  )
  const app = createServer({ logger })
  const options = Value.Create(ingestOptions)
  await app.register(ingestRoutes({ log, logLabel: () => '1', access, metrics: openIngestMetrics(new Registry()), options, logger }))
  await app.listen({ host: '127.0.0.1', port: 0 })
  return (app.server.address() as AddressInfo).port
}

function openLog(settings: Exclude<Settings, { kind: 'bare' }>): Promise<Log> {
  if (settings.kind === 'kafka') return openKafkaLog(logSettings(settings.brokers, settings.topic), logger)
  const path = join(settings.folder, 'messages.sqlite')
  return Promise.resolve(openEmbeddedLog({ path, name: 'messages', queueBytesMax: 16 * 1024 * 1024, retentionMs: 24 * 3_600_000, logger }))
}

async function serve(settings: Settings): Promise<void> {
  const port = settings.kind === 'bare' ? await serveBare(settings.answers) : await serveIngest(await openLog(settings))
  process.send!(`http://127.0.0.1:${port}`)
}

process.once('message', message => void serve(message as Settings))
