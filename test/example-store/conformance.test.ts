// The store of docs/guides/add-a-store.md fulfils the contracts of a sink, a reader and an audit, and is copied.

import { mkdtemp, readdir, readFile, rm, truncate } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Database } from '../../database/database.ts'
import { freeLog } from '../../sinks/logs.ts'
import type { Sink } from '../../sinks/sink.ts'
import { parseJson } from '../../transformers/json/parse.ts'
import type { JsonObject } from '../../transformers/record-batch.ts'
import { auditConformance } from '../conformance/audit.ts'
import type { AuditedStore } from '../conformance/audited-store.ts'
import { copiedStore, copyConformance } from '../conformance/copy.ts'
import { type ReaderSite, readerConformance } from '../conformance/reader/index.ts'
import { logsOf, maintainBy, withNumbers } from '../conformance/sink/fixture.ts'
import { type SinkIdentity, type SinkStore, type StoredRow, sinkConformance } from '../conformance/sink/index.ts'
import { openFreshEmbedded } from '../servers/embedded.ts'
import { plainBatch } from '../sinks/batches.ts'
import { emptyDatabase, storeOn } from '../sinks/postgres/store.ts'
import { openAudit } from './audit.ts'
import { lineLengthMax } from './encode.ts'
import { openErasure } from './erase.ts'
import { type FileRow, type FileStore, openFileStore, rowKey } from './file.ts'
import { openFileReader } from './reader.ts'
import { classify, logTable, openReplaySink, openSink } from './sink.ts'

const options = { formatsMax: 1000, formatsPerChannelMax: 32 }
const signal = new AbortController().signal
const keep = async (): Promise<void> => undefined

interface Site {
  readonly path: string
  readonly file: FileStore
  readonly open: (identity?: SinkIdentity) => Promise<Sink>
  readonly close: () => Promise<void>
}

async function openSite(): Promise<Site> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-test-'))
  const path = join(folder, 'store.jsonl')
  const file = await openFileStore(path)
  return {
    path,
    file,
    open: identity => withNumbers(openSink({ file, options, logs: logsOf(identity) }), identity),
    async close() {
      await file.close()
      await rm(folder, { recursive: true })
    },
  }
}

async function sinkStore(): Promise<SinkStore> {
  const { file, open, close } = await openSite()
  return {
    open,
    replays: { audit: openAudit(file), openSink: async logNumber => openReplaySink({ file, options }, logNumber) },
    erasure: openErasure(file),
    maintain: (retention, now) => maintainBy(openErasure(file), retention, now),
    rows: async () =>
      Array.from(file.rows.values(), storedRow).sort((one, other) => Number(one.position - other.position) || one.index - other.index),
    poisons: {
      'a line that is too long': offset => ({ offset, records: [{ value: 1 }, { stringValue: 'x'.repeat(lineLengthMax) }] }),
    },
    readableDuringWrite: true,
    ...options,
    close,
  }
}

function storedRow({ format, position, timeUs, restNs, payloadText, dataValue, ...row }: FileRow): StoredRow {
  const common = { table: format, ...row, position: BigInt(position) }
  if (payloadText !== undefined) {
    return { ...common, createdNs: BigInt(timeUs) * 1000n + BigInt(restNs!), payload: parseJson(Buffer.from(payloadText)) as JsonObject }
  }
  return { ...common, timeUs, dataValue: dataValue === undefined ? undefined : new Uint8Array(Buffer.from(dataValue, 'base64')) }
}

async function readerSite(): Promise<ReaderSite> {
  const { file, open, close } = await openSite()
  const sink = await open()
  return {
    reader: openFileReader(file),
    async store(batch) {
      await sink.write(sink.encode(batch), async rejections => expect(rejections).toEqual([]), signal)
    },
    names: async () => [...file.formats.keys()].sort(),
    close,
  }
}

async function auditedStore(): Promise<AuditedStore> {
  const { file, open, close } = await openSite()
  const rowsAt = (position: bigint) => [...file.rows.values()].filter(row => row.position === String(position))
  const take = (rows: readonly FileRow[]) => {
    for (const row of rows) file.rows.delete(rowKey(row))
  }
  return {
    open: identity => open(identity),
    openReplay: async logNumber => openReplaySink({ file, options }, logNumber),
    audit: openAudit(file),
    async double(position) {
      for (const row of rowsAt(position)) file.rows.set(`${rowKey(row)} again`, row)
    },
    remove: async position => take(rowsAt(position)),
    foreignChanges: {},
    dropFormat: async format => take([...file.rows.values()].filter(row => row.format === format)),
    free: number => freeLog(logTable(file), number, openAudit(file)),
    close,
  }
}

sinkConformance('a file', sinkStore, { connections: false, transactional: false })
readerConformance(readerSite)
auditConformance('a file', auditedStore)

describe('copies', () => {
  let database: Database

  beforeAll(async () => {
    database = await openFreshEmbedded()
  })
  afterAll(() => database.close())

  const fileStore = async () => copiedStore(await sinkStore(), false)
  const embeddedStore = async () => {
    await emptyDatabase(database)
    return copiedStore({ ...storeOn(database, async () => undefined), readableDuringWrite: false }, true)
  }
  copyConformance('from a file to PostgreSQL, embedded', fileStore, embeddedStore)
  copyConformance('from PostgreSQL, embedded, to a file', embeddedStore, fileStore)
  copyConformance('from a file to a file', fileStore, fileStore)
})

test('a file that ends in the middle of a line opens without that line, and accepts the batch again', async () => {
  const { path, file, open, close } = await openSite()
  const sink = await open()
  await sink.write(sink.encode(plainBatch(0, 3)), keep, signal)
  await truncate(path, (await readFile(path)).length - 5)
  const reopened = await openFileStore(path)
  expect(reopened.rows.size).toBe(2)
  const again = await withNumbers(
    openSink({
      file: reopened,
      options,
      logs: [{ logName: 'messages', logId: 'id-1', writer: 'writer-1' }],
    }),
  )
  await again.write(again.encode(plainBatch(0, 3)), keep, signal)
  await reopened.close()
  const last = await openFileStore(path)
  expect(last.rows).toEqual(file.rows)
  await last.close()
  await close()
})

test('a full disk is waited for', () => {
  expect(classify(Object.assign(new Error('full'), { code: 'ENOSPC' }))).toBe('transient')
})

test('the two pages that name its length have counted its lines', async () => {
  const files = (await readdir(import.meta.dirname)).filter(name => !name.endsWith('.test.ts'))
  const texts = await Promise.all(files.map(name => readFile(join(import.meta.dirname, name), 'utf8')))
  const lines = texts.join('').split('\n').length - 1
  for (const page of ['sinks/README.md', 'docs/guides/add-a-store.md']) {
    expect(await readFile(join(import.meta.dirname, '../..', page), 'utf8')).toContain(` ${lines} lines.`)
  }
})
