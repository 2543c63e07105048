// A reader's metrics: queries to its store by kind and outcome, and requests by route and status.

import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { createLogger } from '../../../config/logger.ts'
import { createServer } from '../../../http/server.ts'
import { QueryTooLargeError, type Reader, StoreUnavailableError } from '../../../readers/reader.ts'
import { openReaderMetrics } from '../../../roles/reader/metrics.ts'
import { aggregateQuery, formatsQuery, pageQuery } from '../../conformance/reader/index.ts'

/** The values of a metric by its labels, without those of the component. */
async function valuesOf(registry: Registry, name: string): Promise<Record<string, number>> {
  const lines = (await registry.metrics()).split('\n').filter(line => line.startsWith(`${name}{`))
  return Object.fromEntries(
    lines.map(line => {
      const [, labels = '', value] = /^\w+\{component_id="reader",component_kind="source",?(.*)\} (\S+)$/.exec(line)!
      return [labels, Number(value)]
    }),
  )
}

function readerThat(answer: () => Promise<never>): Reader {
  return { read: answer, count: answer, latest: answer, aggregate: answer, formats: answer, check: answer, close: answer }
}

test('every query is timed under its own name, and failures are counted by reason', async () => {
  const registry = new Registry()
  const metrics = openReaderMetrics(registry)
  const signal = new AbortController().signal
  const failures: Error[] = [
    new StoreUnavailableError('away'),
    new QueryTooLargeError('slow'),
    new QueryTooLargeError('slow'),
    new StoreUnavailableError('away'),
    new Error('a defect'),
  ]
  const reader = metrics.timed(readerThat(() => Promise.reject(failures.shift()!)))
  await expect(reader.read(pageQuery(), signal)).rejects.toThrow('away')
  await expect(reader.count(pageQuery(), 1, signal)).rejects.toThrow('slow')
  await expect(reader.latest(pageQuery(), signal)).rejects.toThrow('slow')
  await expect(reader.formats(formatsQuery(), signal)).rejects.toThrow('away')
  await expect(reader.aggregate(aggregateQuery(), signal)).rejects.toThrow('a defect')
  expect(await valuesOf(registry, 'store_query_duration_seconds_count')).toEqual({
    'query="read"': 1,
    'query="count"': 1,
    'query="latest"': 1,
    'query="aggregate"': 1,
    'query="formats"': 1,
  })
  expect(await valuesOf(registry, 'component_errors_total')).toEqual({
    'stage="receiving",error_type="request_failed",error_code=""': 3,
    'stage="receiving",error_type="timed_out",error_code=""': 2,
  })
})

test('a query that its client cancelled is timed and is not an error', async () => {
  const registry = new Registry()
  const metrics = openReaderMetrics(registry)
  const gone = AbortSignal.abort(new Error('gone'))
  await expect(metrics.timed(readerThat(() => Promise.reject(new Error('gone')))).read(pageQuery(), gone)).rejects.toThrow('gone')
  expect(await valuesOf(registry, 'store_query_duration_seconds_count')).toEqual({ 'query="read"': 1 })
  expect(await valuesOf(registry, 'component_errors_total')).toEqual({})
})

test('check and close are passed to the reader, and are not queries', async () => {
  const registry = new Registry()
  const asked: string[] = []
  const told = async (what: string): Promise<void> => void asked.push(what)
  const unused = readerThat(() => Promise.reject(new Error('no test asks for it')))
  const reader = openReaderMetrics(registry).timed({ ...unused, check: () => told('check'), close: () => told('close') })
  await reader.check()
  await reader.close()
  expect(asked).toEqual(['check', 'close'])
  expect(await valuesOf(registry, 'store_query_duration_seconds_count')).toEqual({})
})

test('requests are counted by the path of their route and the status of their answer', async () => {
  const registry = new Registry()
  const metrics = openReaderMetrics(registry)
  const app = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
  app.register(async inner => {
    metrics.watch(inner)
    inner.get('/channels/:channel/messages', async (_request, reply) => reply.code(206).send({}))
  })
  app.get('/elsewhere', async () => ({}))
  for (const url of ['/channels/one/messages', '/channels/two/messages', '/elsewhere']) await app.inject({ url })
  await app.inject({ url: '/channels/one/messages', method: 'HEAD' })
  await app.inject({ url: '/channels/one/messages?limit=all' })
  const path = 'path="/channels/:channel/messages",status="206"'
  expect(await valuesOf(registry, 'http_server_handler_duration_seconds_count')).toEqual({
    [`method="GET",${path},answer="page"`]: 2,
    [`method="HEAD",${path},answer="page"`]: 1,
    [`method="GET",${path},answer="export"`]: 1,
  })
  await app.close()
})

test('open live streams are counted, ends by reason, and refusals like other requests, without durations', async () => {
  const registry = new Registry()
  const metrics = openReaderMetrics(registry)
  const app = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
  app.register(async inner => {
    metrics.watchStreams(inner)
    inner.get('/stream', async (request, reply) =>
      reply.code((request.query as { refuse?: string }).refuse === 'true' ? 429 : 200).send({}),
    )
  })
  expect(await valuesOf(registry, 'open_connections')).toEqual({ '': 0 })
  for (const url of ['/stream', '/stream?refuse=true']) await app.inject({ url })
  metrics.live.opened()
  metrics.live.opened()
  metrics.live.closed('slow')
  metrics.live.lost()
  expect(await valuesOf(registry, 'open_connections')).toEqual({ '': 1 })
  expect(await valuesOf(registry, 'connection_shutdown_total')).toEqual({ 'reason="slow"': 1 })
  expect(await valuesOf(registry, 'component_errors_total')).toEqual({
    'stage="receiving",error_type="reader_failed",error_code="lost"': 1,
  })
  expect(await valuesOf(registry, 'http_server_handler_duration_seconds_count')).toEqual({
    'method="GET",path="/stream",status="429",answer="stream"': 1,
  })
  await app.close()
})
