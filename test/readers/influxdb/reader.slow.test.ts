// The InfluxDB reader on a server: what every reader promises, and what this one does where the server fails or is slow.

import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openInfluxdbReader } from '../../../readers/influxdb/reader.ts'
import { QueryTooLargeError, type Reader, StoreUnavailableError } from '../../../readers/reader.ts'
import { type Connection, fluxText, openConnection } from '../../../sinks/influxdb/connection.ts'
import { aggregateQuery, formatsQuery, pageQuery, readerConformance } from '../../conformance/reader/index.ts'
import { inDepth } from '../../depth.ts'
import { describeWithOwnInflux } from '../../servers/influx.ts'
import { type InfluxSite, openSite, optionsFor } from './site.ts'

const signal = new AbortController().signal

/** All that a reader can be asked. */
const queries: Readonly<Record<string, (reader: Reader, signal: AbortSignal) => Promise<unknown>>> = {
  read: (reader, signal) => reader.read(pageQuery(), signal),
  count: (reader, signal) => reader.count(pageQuery(), 100, signal),
  latest: (reader, signal) => reader.latest(pageQuery(), signal),
  aggregate: (reader, signal) => reader.aggregate(aggregateQuery(), signal),
  formats: (reader, signal) => reader.formats(formatsQuery(), signal),
}

/** In which a busy machine's server shows that it is alive. */
const lifeSignMs = 60_000

/** A query of ours that Flux works at for minutes. */
const minutes = `import g "generate"\ng.from(start: 1970-01-01T00:00:00Z, stop: 1970-01-02T00:00:00Z, count: 60000000, fn: (n) => n) |> map(fn: (r) => ({r with x: ${fluxText('x')}})) |> sum()`

describeWithOwnInflux('on a server', influx => {
  describe('what every reader promises', () => {
    let site: InfluxSite
    readerConformance(async () => (site = await openSite(influx)))

    test('every query to the store contains a channel', () => {
      const sources = site.asked.flatMap(flux => flux.split('from(bucket: ').slice(1))
      expect(sources.length).toBeGreaterThan(1000)
      for (const source of sources) expect(source.split(' |> filter(fn: (r) => ')[2]).toMatch(/^r\["channel"\] == "/)
    })
  })

  inDepth(() => {
    describe('if the server fails', () => {
      let site: InfluxSite
      beforeAll(async () => {
        site = await openSite(influx)
      })
      afterAll(() => site.close())

      test('a server that is down makes the store unavailable, until it is back', async () => {
        await site.reader.check()
        await influx.kill()
        for (const ask of Object.values(queries)) await expect(ask(site.reader, signal)).rejects.toBeInstanceOf(StoreUnavailableError)
        await expect(site.reader.check()).rejects.toBeInstanceOf(StoreUnavailableError)
        await influx.restart()
        await expect.poll(() => site.reader.check()).toBeUndefined()
        expect(await site.reader.read(pageQuery(), signal)).toEqual([])
      })

      test('a silent server does not block a query: it ends with the reason of its caller', async () => {
        await site.reader.check()
        influx.pause()
        try {
          for (const ask of Object.values(queries)) {
            const going = new AbortController()
            const reason = new Error('gone')
            const asked = ask(site.reader, going.signal)
            const left = expect(asked).rejects.toBe(reason)
            setImmediate(() => going.abort(reason))
            await left
          }
        } finally {
          influx.resume()
        }
      })

      test('a server that is silent for the time of a query makes the store unavailable', async () => {
        const reader = openInfluxdbReader({ connection: site.connection, options: { queryTimeoutMs: 500 } })
        influx.pause()
        try {
          await expect(reader.read(pageQuery(), signal)).rejects.toBeInstanceOf(StoreUnavailableError)
          await expect(reader.check()).rejects.toBeInstanceOf(StoreUnavailableError)
        } finally {
          influx.resume()
        }
      })

      test('a query that a live server has not answered in time is too large', async () => {
        const endless: Connection = {
          ...site.connection,
          async *query(_flux, ended) {
            yield []
            await once(ended!, 'abort')
            throw new Error('given up')
          },
        }
        const reader = openInfluxdbReader({ connection: endless, options: { queryTimeoutMs: 500 }, lifeSignMs })
        for (const ask of Object.values(queries)) {
          const refused = expect(ask(reader, signal)).rejects
          await refused.toBeInstanceOf(QueryTooLargeError)
        }
        await expect(queries['read']!(reader, signal)).rejects.toThrow(/narrow it with name, publisher, from or to/)
      })

      test('so is one that takes too long while every connection is busy', async () => {
        const connection = await openConnection({ ...site.options, requestsInFlight: 1 }, 'test')
        const ending = new AbortController()
        const long = Array.from({ length: 4 }, async () => {
          for await (const lines of connection.query(minutes, ending.signal)) throw new Error(`answered with ${lines.length} lines`)
        })
        const ended = Promise.allSettled(long)
        const reader = openInfluxdbReader({ connection, options: { queryTimeoutMs: 500 }, lifeSignMs })
        await expect(reader.read(pageQuery(), signal)).rejects.toBeInstanceOf(QueryTooLargeError)
        ending.abort()
        expect((await ended).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected', 'rejected'])
        await connection.close()
      })

      test('a wrong token is an error that says so, without the token', async () => {
        const options = { ...site.options, token: 'not-the-token' }
        const connection = await openConnection(options, 'test')
        const reader = openInfluxdbReader({ connection, options })
        for (const ask of [...Object.values(queries), (one: Reader) => one.check()]) {
          const error = await ask(reader, signal).then(
            () => undefined,
            (thrown: unknown) => thrown as Error,
          )
          expect(error?.message).toMatch(/does not know the token/)
          expect(error).not.toBeInstanceOf(StoreUnavailableError)
          expect(JSON.stringify([error?.message, error?.stack])).not.toContain('not-the-token')
        }
        await connection.close()
      })

      test('before the first writer there is no bucket, and the error says so; reads create none', async () => {
        const options = optionsFor(influx, 'not-made-yet')
        const connection = await openConnection(options, 'test')
        const reader = openInfluxdbReader({ connection, options })
        const before = await site.names()
        for (const ask of [...Object.values(queries), (one: Reader) => one.check()]) {
          await expect(ask(reader, signal)).rejects.toThrow(/start a writer/)
          await expect(ask(reader, signal)).rejects.toBeInstanceOf(StoreUnavailableError)
        }
        expect(await site.names()).toEqual(before)
        await connection.close()
      })

      test('when a caller goes away, its query ends on the server', async () => {
        const running = async (): Promise<number> => {
          const text = await (await fetch(`${influx.url}/metrics`)).text()
          return [...text.matchAll(/^qc_(?:executing|compiling|queueing)_active\{[^}]*\} (\S+)$/gm)].reduce(
            (sum, [, n]) => sum + Number(n),
            0,
          )
        }
        const slow: Connection = { ...site.connection, query: (_flux, ended) => site.connection.query(minutes, ended) }
        const reader = openInfluxdbReader({ connection: slow, options: { queryTimeoutMs: 3_600_000 } })
        const going = new AbortController()
        const asked = reader.count(pageQuery(), 10, going.signal)
        const left = expect(asked).rejects.toThrow('gone')
        await expect.poll(running).toBe(1)
        going.abort(new Error('gone'))
        await left
        await expect.poll(running).toBe(0)
      })
    })
  })
})
