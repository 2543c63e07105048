// Metrics of a reader, named like Vector's internal metrics: requests by route and status, store queries, and live streams.
//
// Labels never contain data from devices or clients: a path is that of the route, with the names of its parameters.

import type { FastifyReply, FastifyRequest } from 'fastify'
import { Histogram, type Registry } from 'prom-client'
import type { HttpServer } from '../../http/server.ts'
import { counter, errorsHelp, gauge, openConnectionsHelp } from '../../pipeline/writer/metrics.ts'
import type { LiveMetrics } from '../../readers/live/routes.ts'
import { QueryTooLargeError, type Reader } from '../../readers/reader.ts'

export interface ReaderMetrics {
  /** Times the requests of this app: pages, and separately exports, which last as long as the client reads. */
  watch(app: HttpServer): void
  /** Times only rejected requests: the duration of a stream depends on the client. */
  watchStreams(app: HttpServer): void
  readonly live: LiveMetrics
  /** The same reader, with its store queries timed. */
  timed(reader: Reader): Reader
}

const component = { component_id: 'reader', component_kind: 'source' } as const
const componentLabels = Object.keys(component)
/** From an indexed page to the default time limit of a query. */
const buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

export function openReaderMetrics(registry: Registry): ReaderMetrics {
  const requests = new Histogram({
    name: 'http_server_handler_duration_seconds',
    help: 'Seconds from the request to the end of its response. Requests whose client disconnected earlier are not counted.',
    labelNames: [...componentLabels, 'method', 'path', 'status', 'answer'],
    buckets,
    registers: [registry],
  })
  const queries = new Histogram({
    name: 'store_query_duration_seconds',
    help: 'Seconds until the store answered or the query was aborted: a page of rows, a count, the newest of each series, buckets, the formats of a channel.',
    labelNames: [...componentLabels, 'query'],
    buckets,
    registers: [registry],
  })
  const errors = counter(registry, 'component_errors_total', errorsHelp, [...componentLabels, 'stage', 'error_type', 'error_code'])

  const streams = gauge(registry, 'open_connections', openConnectionsHelp, componentLabels).labels(component)
  streams.set(0)
  const ends = counter(registry, 'connection_shutdown_total', 'Ended live streams by reason: `left` if the client disconnected.', [
    ...componentLabels,
    'reason',
  ])

  function observe(request: FastifyRequest, reply: FastifyReply, answer: 'page' | 'export' | 'stream'): void {
    const { method, routeOptions } = request
    requests.observe({ ...component, method, path: routeOptions.url ?? '', status: reply.statusCode, answer }, reply.elapsedTime / 1000)
  }

  return {
    watch(app) {
      app.addHook('onResponse', (request, reply, done) => {
        observe(request, reply, (request.query as { limit?: unknown }).limit === 'all' ? 'export' : 'page')
        done()
      })
    },
    watchStreams(app) {
      app.addHook('onResponse', (request, reply, done) => {
        if (reply.statusCode >= 400) observe(request, reply, 'stream')
        done()
      })
    },
    live: {
      opened: () => streams.inc(),
      closed(reason) {
        streams.dec()
        ends.inc({ ...component, reason })
      },
      lost: () => errors.inc({ ...component, stage: 'receiving', error_type: 'reader_failed', error_code: 'lost' }),
    },
    timed(reader) {
      async function time<Answer>(query: string, signal: AbortSignal, ask: () => Promise<Answer>): Promise<Answer> {
        const end = queries.startTimer({ ...component, query })
        try {
          return await ask()
        } catch (error) {
          // The client has disconnected.
          if (signal.aborted) throw error
          const type = error instanceof QueryTooLargeError ? 'timed_out' : 'request_failed'
          errors.inc({ ...component, stage: 'receiving', error_type: type, error_code: '' })
          throw error
        } finally {
          end()
        }
      }
      return {
        read: (query, signal) => time('read', signal, () => reader.read(query, signal)),
        count: (filter, max, signal) => time('count', signal, () => reader.count(filter, max, signal)),
        latest: (query, signal) => time('latest', signal, () => reader.latest(query, signal)),
        aggregate: (query, signal) => time('aggregate', signal, () => reader.aggregate(query, signal)),
        formats: (query, signal) => time('formats', signal, () => reader.formats(query, signal)),
        check: () => reader.check(),
        close: () => reader.close(),
      }
    },
  }
}
