// Who is answered in gzip, and the stream of it.

import { once } from 'node:events'
import { Readable } from 'node:stream'
import { createGunzip, gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { coded, codedStream, takesGzip } from '../../readers/content-coding.ts'

test.each([
  [undefined, false],
  ['', false],
  ['identity', false],
  ['br', false],
  ['gzip', true],
  ['GZIP', true],
  ['x-gzip', true],
  ['gzip, deflate, br', true],
  ['gzip;q=0', false],
  ['gzip;q=0.001', true],
  ['gzip;q=0.5, identity;q=0.6', false],
  ['gzip;q=0.5, identity;q=0.5', true],
  ['br;q=1, gzip;q=0.2', true],
  ['*', true],
  ['*;q=0', false],
  ['gzip;q=0, *', false],
  ['identity;q=0, *;q=0.5', true],
  ['nonsense;q=', false],
])('%s takes gzip: %s', (header, takes) => {
  expect(takesGzip(header)).toBe(takes)
})

test.each([1024, 64 * 1024 + 1])('a text of %i characters comes back as it went', async length => {
  const text = '°'.repeat(length)
  expect(gunzipSync((await coded(text))!).toString()).toBe(text)
})

test('a short text is not worth it', async () => {
  expect(await coded('a'.repeat(1023))).toBeUndefined()
})

test('each piece is out before the next is there', async () => {
  const source = new Readable({ read: () => undefined })
  const text = codedStream(source).pipe(createGunzip())
  for (const piece of ['first', 'second']) {
    source.push(piece)
    expect(String(((await once(text, 'data')) as [Buffer])[0])).toBe(piece)
  }
  source.push(null)
  await once(text, 'end')
})

test('where the source fails the stream fails, and where the stream is given up the source ends', async () => {
  const failing = new Readable({ read: () => undefined })
  const failed = once(codedStream(failing).resume(), 'end')
  failing.destroy(new Error('the store is away'))
  await expect(failed).rejects.toThrow('the store is away')

  const source = new Readable({ read: () => undefined })
  const stream = codedStream(source)
  const closed = new Promise(resolve => source.on('close', resolve))
  stream.destroy()
  await closed
  expect(source.destroyed).toBe(true)
})
