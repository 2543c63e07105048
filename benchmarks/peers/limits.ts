// What no pipeline on this machine can exceed: the broker's own consumer, JSON.parse on one core, and psql's \copy of ready rows into the peers' table.

import { execFile } from 'node:child_process'
import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { openServer } from '../../database/server.ts'
import type { Ledger } from '../../roles/tools/bench/ledger.ts'
import { messagesOf } from '../../roles/tools/bench/messages.ts'
import { callNs } from '../median-time.ts'
import { consumerPerformance } from '../pipeline/kafka-writer/measure.ts'
import { type CopyFigures, copied, dump } from '../pipeline/kafka-writer/raw-copy.ts'
import type { Bench } from './measure.ts'
import { plainTable } from './peer.ts'

const execute = promisify(execFile)

export interface Limits {
  readonly consumer: number
  readonly parse: number
  readonly copyText: CopyFigures
  readonly copyBinary: CopyFigures
}

const parseMs = 2000
const parsedMax = 10_000

/** Messages or rows/s. */
export async function measureLimits({ kafka, postgres, folder }: Bench, topic: string, { plan }: Ledger): Promise<Limits> {
  const consumer = await consumerPerformance(kafka, { topic, messages: plan.messages, rows: plan.messages })
  const payloads: string[] = []
  for (const { payload } of messagesOf({ ...plan, messages: Math.min(plan.messages, parsedMax) }))
    payloads.push(Buffer.from(payload).toString())
  const parse = 1e9 / callNs(payload => JSON.parse(payload), payloads, parseMs)

  const url = await postgres.createDatabase()
  const database = await openServer({ url, applicationName: 'benchmark', connectionsMax: 1 })
  const file = join(folder, 'rows')
  try {
    await pipeline(Readable.from(linesOf(plan)), createWriteStream(file))
    for (const statement of plainTable.schema) await database.execute(statement)
    const copy = (format: 'text' | 'binary') =>
      copied(postgres, { database, url, table: 'readings' }, { file, format, rows: plan.messages })
    const copyText = await copy('text')
    await database.execute('CREATE TABLE ready (LIKE readings)')
    await execute('psql', [url, '-q', '-c', `\\copy ready FROM '${file}'`])
    await dump(url, 'SELECT * FROM ready', { file, format: 'binary' })
    return { consumer, parse, copyText, copyBinary: await copy('binary') }
  } finally {
    await database.close()
    await rm(file, { force: true })
  }
}

function* linesOf(plan: Ledger['plan']): Generator<string> {
  for (const { payload } of messagesOf(plan)) {
    const { device, sent_us: sentUs, temperature } = JSON.parse(Buffer.from(payload).toString()) as Record<string, string | number>
    yield `${device}\t${sentUs}\t${temperature}\n`
  }
}
