// What no pipeline on this machine can exceed: psql's \copy of ready rows into the peers' table, the broker's own consumer, and JSON.parse on one core.

import { execFile } from 'node:child_process'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { openServer } from '../../database/server.ts'
import type { Ledger } from '../../roles/tools/bench/ledger.ts'
import { callNs } from '../median-time.ts'
import { consumerPerformance } from '../pipeline/kafka-writer/measure.ts'
import { copied, dump } from '../pipeline/kafka-writer/raw-copy.ts'
import { readingsOf } from './count.ts'
import type { Bench } from './measure.ts'
import { plainTable } from './peer.ts'
import { dropDatabase } from './store.ts'

export interface Limit {
  readonly name: string
  readonly messagesPerSecond: number
  /** Of the store, for each row. */
  readonly cpuUs?: number
  readonly bytesARow?: number
}

const execute = promisify(execFile)
const parseMs = 2000
const parsedMax = 10_000

export async function measureLimits({ kafka, postgres, folder }: Bench, topic: string, { plan }: Ledger): Promise<Limit[]> {
  const consumed = await consumerPerformance(kafka, { topic, messages: plan.messages, rows: plan.messages })
  const documents = Array.from(readingsOf({ ...plan, messages: Math.min(plan.messages, parsedMax) }), reading => JSON.stringify(reading))
  const parsed = 1e9 / callNs(document => JSON.parse(document), documents, parseMs)

  const url = await postgres.createDatabase()
  const database = await openServer({ url, applicationName: 'benchmark', connectionsMax: 1 })
  const file = join(folder, 'rows')
  try {
    for (const statement of plainTable.schema) await database.execute(statement)
    const copy = async (format: 'text' | 'binary'): Promise<Limit> => {
      const figures = await copied(postgres, { database, url, table: 'readings' }, { file, format, rows: plan.messages })
      const { rowsPerSecond, cpuUsARow, bytesARow } = figures
      return { name: `\\copy of ready rows, ${format}`, messagesPerSecond: rowsPerSecond, cpuUs: cpuUsARow, bytesARow }
    }
    const lines = Array.from(readingsOf(plan), ({ device, sent_us: sentUs, temperature }) => `${device}\t${sentUs}\t${temperature}\n`)
    await writeFile(file, lines.join(''))
    const asText = await copy('text')
    await execute('psql', [url, '-q', '-c', `\\copy readings FROM '${file}'`])
    await dump(url, 'SELECT * FROM readings', { file, format: 'binary' })
    const unstored = [
      { name: "Kafka's ConsumerPerformance", messagesPerSecond: consumed },
      { name: 'JSON.parse on one core', messagesPerSecond: parsed },
    ]
    return [asText, await copy('binary'), ...unstored]
  } finally {
    await database.close()
    await dropDatabase(postgres, url)
    await rm(file, { force: true })
  }
}
