// The embedded log: how long appends of 32 parallel publishers wait, how long a commit blocks the process, and reads.
// For comparison, the limit of the disk: how long it takes to sync one written page.

import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { pino } from 'pino'
import { openEmbeddedLog } from '../../pipeline/embedded-log/log.ts'
import { openEmbeddedSource } from '../../pipeline/embedded-log/source.ts'
import type { OutgoingMessage } from '../../pipeline/log.ts'

const publishers = 32
const appendMs = 2000
const syncs = 200

const folder = mkdtempSync(join(process.env['SLUICE_BENCHMARK_FOLDER'] ?? tmpdir(), 'sluice-benchmark-'))
const payload = new TextEncoder().encode('[{"bn":"urn:dev:mac:0024befffe804ff1:","n":"temperature","u":"Cel","v":23.1}]')
const message: OutgoingMessage = {
  channel: '0f9c1d1e-52cb-4ef4-8e4b-8a64c1f7d6a5',
  subtopic: 'room.temperature',
  publisher: 'b8f0f0b5-2f0c-4a7f-a7a4-0f9c4c1d1e52',
  protocol: 'http',
  contentType: 'application/senml+json',
  createdUs: 1_700_000_000_000_000,
  createdRestNs: 0,
  payload,
}

function percentile(sorted: readonly number[], share: number): string {
  return (sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN).toFixed(2)
}

function perSecond(count: number, elapsedMs: number): string {
  return Math.round((count / elapsedMs) * 1000).toLocaleString('en')
}

/** Sorted milliseconds for writing and syncing 4 KiB. */
function measureSyncs(): number[] {
  const file = openSync(join(folder, 'raw'), 'w')
  const page = new Uint8Array(4096)
  const elapsed: number[] = []
  for (let at = 0; at < syncs; at++) {
    const startedMs = performance.now()
    writeSync(file, page)
    fdatasyncSync(file)
    elapsed.push(performance.now() - startedMs)
  }
  closeSync(file)
  return elapsed.sort((a, b) => a - b)
}

try {
  const raw = measureSyncs()
  console.log(`disk       p50 ${percentile(raw, 0.5)} ms, p99 ${percentile(raw, 0.99)} ms to sync a page`)

  const log = openEmbeddedLog({
    path: join(folder, 'messages.sqlite'),
    name: 'messages',
    queueBytesMax: 16 * 1024 * 1024,
    retentionMs: 86_400_000,
    logger: pino({ level: 'silent' }),
  })
  let commits = 0
  log.onAppend(() => commits++)
  const waits: number[] = []
  const blocked = monitorEventLoopDelay({ resolution: 1 })
  blocked.enable()
  const startedMs = performance.now()
  const publish = async (): Promise<void> => {
    while (performance.now() - startedMs < appendMs) {
      const sentMs = performance.now()
      await log.append([message])
      waits.push(performance.now() - sentMs)
    }
  }
  await Promise.all(Array.from({ length: publishers }, publish))
  const elapsedMs = performance.now() - startedMs
  blocked.disable()
  waits.sort((a, b) => a - b)
  console.log(
    `appends    ${perSecond(waits.length, elapsedMs)}/s by ${publishers} publishers, ${(waits.length / commits).toFixed(1)} a commit`,
  )
  console.log(`append     p50 ${percentile(waits, 0.5)} ms, p99 ${percentile(waits, 0.99)} ms, longest ${percentile(waits, 1)} ms`)
  console.log(
    `event loop p99 ${(blocked.percentile(99) / 1e6).toFixed(2)} ms, longest ${(blocked.max / 1e6).toFixed(2)} ms late (1 ms is its resolution)`,
  )

  const source = openEmbeddedSource({
    log,
    consumer: 'benchmark',
    startAt: async () => new Map(),
    chunkBytesMax: 1024 * 1024,
    chunkMessagesMax: 1000,
  })
  const readingMs = performance.now()
  let messages = 0
  let bytes = 0
  for await (const chunk of source.chunks(new AbortController().signal)) {
    const cursor = chunk.cursor()
    while (cursor.next()) {
      messages++
      bytes += cursor.message.payload.byteLength
    }
    if (chunk.to === waits.length) break
  }
  console.log(
    `reads      ${perSecond(messages, performance.now() - readingMs)}/s, ${bytes === messages * payload.byteLength ? 'every byte there' : 'BYTES ARE MISSING'}`,
  )
  await source.close()
  await log.close()
} finally {
  rmSync(folder, { recursive: true, force: true })
}
