// Ingest on a real server and a real embedded log, with keys that the test knows.

import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Registry } from 'prom-client'
import { createLogger } from '../../../config/logger.ts'
import type { AccessControl, AccessRequest } from '../../../control-plane/client.ts'
import { createServer } from '../../../http/server.ts'
import { type EmbeddedLog, openEmbeddedLog } from '../../../pipeline/embedded-log/log.ts'
import type { ArrivalListener } from '../../../pipeline/ingest/arrivals.ts'
import type { OwnerBounds } from '../../../pipeline/ingest/bounds/owner-bounds.ts'
import type { Quotas } from '../../../pipeline/ingest/bounds/quotas.ts'
import { openIngestMetrics } from '../../../pipeline/ingest/metrics.ts'
import { ingestRoutes } from '../../../pipeline/ingest/routes.ts'

export const channel: string = randomUUID()
export const thing: string = randomUUID()
export const key: string = randomUUID()
/** The key of a thing that is connected to no channel. */
export const looseKey: string = randomUUID()
export const looseThing: string = randomUUID()

/** An unknown key that was used too often. */
export const limitedKey: string = randomUUID()

/** No quotas, and no certificates. */
export const unlimited = { thingMessagesPerMinute: 0, channelMessagesPerMinute: 0, clientCertificates: 'none' } as const

/** Knows two keys and one connection. */
export function openKeys(): AccessControl & { requests: AccessRequest[]; fail?: Error; isBounded: boolean; isConnected: boolean } {
  return {
    requests: [],
    isBounded: false,
    isConnected: true,
    async authorize(request) {
      this.requests.push(request)
      if (this.fail !== undefined) throw this.fail
      const { credential, channel: asked } = request
      if (credential.secret === limitedKey) return { allowed: false, reason: 'limited', leftMs: 41_001 }
      if (credential.scheme === 'ThingId') {
        if (credential.secret !== thing || asked !== channel || !this.isConnected) return { allowed: false, reason: 'forbidden' }
        return { allowed: true, publisher: thing, owner: 'user' }
      }
      if (credential.scheme !== 'Thing' || ![key, looseKey].includes(credential.secret))
        return { allowed: false, reason: 'unauthenticated' }
      const whose = { publisher: credential.secret === key ? thing : looseThing, owner: 'user', isBounded: this.isBounded }
      if (credential.secret !== key || asked !== channel || !this.isConnected) return { allowed: false, reason: 'forbidden', ...whose }
      return { allowed: true, ...whose }
    },
    deletedChannels: async () => [],
    onChange: () => () => undefined,
  }
}

export type Body = string | Uint8Array<ArrayBuffer> | ReadableStream | null

export interface PublishAnswer {
  readonly status: number
  readonly headers: Headers
  readonly json: Record<string, unknown>
}

export interface IngestSite extends AsyncDisposable {
  readonly url: string
  readonly port: number
  readonly log: EmbeddedLog
  readonly keys: ReturnType<typeof openKeys>
  readonly registry: Registry
  /** Publishes with the connected thing's key and SenML by default; undefined leaves a header out. */
  publish(path: string, body: Body, headers?: Readonly<Record<string, string | undefined>>): Promise<PublishAnswer>
  /** The messages in the log, oldest first. */
  messages(): Record<string, unknown>[]
}

/** @param quotas with a clock of the test, as bounds; none by default */
export async function openSite({
  payloadBytesMax = 262_144,
  linesMax = 1000,
  queueBytesMax = 10_000_000,
  quotas,
  bounds,
  arrivals,
}: {
  payloadBytesMax?: number
  linesMax?: number
  queueBytesMax?: number
  quotas?: Quotas | undefined
  bounds?: OwnerBounds
  arrivals?: ArrivalListener
} = {}): Promise<IngestSite> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-ingest-'))
  const logger = createLogger({ level: 'silent', pretty: false })
  const log = openEmbeddedLog({ path: join(folder, 'messages.sqlite'), name: 'messages', queueBytesMax, retentionMs: 3_600_000, logger })
  const keys = openKeys()
  const registry = new Registry()
  const app = createServer({ logger })
  const options = { payloadBytesMax, linesMax, ...unlimited }
  const metrics = openIngestMetrics(registry)
  const watched = arrivals === undefined ? {} : { arrivals }
  await app.register(ingestRoutes({ log, logLabel: () => '1', access: keys, metrics, options, quotas, bounds, ...watched }))
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}`

  return {
    url,
    port,
    log,
    keys,
    registry,
    async publish(path, body, headers = {}) {
      const all = { authorization: `Thing ${key}`, 'content-type': 'application/senml+json', ...headers }
      const given = Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined)
      const answer = await fetch(`${url}${path}`, { method: 'POST', headers: given, body, duplex: 'half' })
      return { status: answer.status, headers: answer.headers, json: (await answer.json()) as Record<string, unknown> }
    },
    messages: () => log.file.database.prepare('SELECT * FROM messages ORDER BY offset').all(),
    async [Symbol.asyncDispose]() {
      await app.close()
      await log.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
