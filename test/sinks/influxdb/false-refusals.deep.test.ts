// Answers that look as if they were about the lines, and are not: nothing is rejected for them.

import { gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { classify, ResponseError } from '../../../sinks/influxdb/errors.ts'
import { describeWithInflux } from '../../servers/influx.ts'
import { batchOf, plain } from '../batches.ts'
import { openStore } from './store.ts'

const signal = new AbortController().signal
const unreasoned = (): ResponseError => new ResponseError('POST', 422, '{"code":"unprocessable entity","message":"no"}')

describeWithInflux('a refusal', influx => {
  const page = '<html>400 The plain HTTP request was sent to HTTPS port</html>'
  const isCulprit = (body: string): boolean => body.includes('culprit')
  test.each([
    ["a proxy's page", () => true, new ResponseError('POST', 400, page), 'systemic', /a server in front of InfluxDB/],
    ["a proxy's other page", () => true, new ResponseError('POST', 400, '<html>'), 'transient', /a server in front of InfluxDB/],
    ['no reason, to all', () => true, unreasoned(), 'systemic', /a valid point is refused as well/],
    ['413 to all', () => true, new ResponseError('POST', 413, '<html>'), 'transient', /a valid point is refused as well/],
    ['no reason, to some lines', isCulprit, unreasoned(), 'none', /^it was written$/],
  ])('%s: is about the data only if valid points are accepted', async (_what, refuses, refusal, errorClass, sentence) => {
    const store = await openStore(influx)
    const sink = await store.open()
    const send = store.connection.write.bind(store.connection)
    Object.assign(store.connection, {
      write: async (bucket: string, gzipped: Uint8Array, ended?: AbortSignal) => {
        if (refuses(gunzipSync(gzipped).toString())) throw refusal
        await send(bucket, gzipped, ended)
      },
    })
    const rejections: object[] = []
    const messages = [plain(0), { ...plain(1), publisher: 'culprit' }, plain(2)]
    const error = await sink
      .write(sink.encode(batchOf(0, 3, messages)), async some => void rejections.push(...some), signal)
      .then(
        () => undefined,
        (error: unknown) => error,
      )
    expect(error === undefined ? 'none' : classify(error)).toBe(errorClass)
    expect(error === undefined ? 'it was written' : (error as Error).message).toMatch(sentence)
    expect(rejections).toEqual(error === undefined ? [expect.objectContaining({ message: 1, rule: 'store-refused' })] : [])
    await store.close()
  })
})
