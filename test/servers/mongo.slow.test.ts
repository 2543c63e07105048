// The server that speaks MongoDB's protocol, as the tests have it: it answers, and does so again after it was ended, killed or halted.

import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { describeWithMongo } from './mongo.ts'

/** `{ hello: 1, $db: 'admin' }` as BSON, in an OP_MSG with one section of kind 0. */
function hello(): Buffer {
  const fields = Buffer.concat([Buffer.from('\u0010hello\0\u0001\0\0\0\u0002$db\0\u0006\0\0\0admin\0\0', 'latin1')])
  const document = Buffer.concat([Buffer.alloc(4), fields])
  document.writeInt32LE(document.length)
  const head = Buffer.alloc(21)
  head.writeInt32LE(head.length + document.length, 0)
  head.writeInt32LE(7, 4)
  head.writeInt32LE(2013, 12)
  return Buffer.concat([head, document])
}

describeWithMongo('a server of MongoDB', mongo => {
  async function answer(): Promise<{ to: number; text: string }> {
    const { hostname, port } = new URL(mongo.url)
    const socket = connect(Number(port), hostname)
    try {
      socket.write(hello())
      const [data] = (await once(socket, 'data', { signal: AbortSignal.timeout(2000) })) as [Buffer]
      return { to: data.readInt32LE(8), text: data.toString('latin1') }
    } finally {
      socket.destroy()
    }
  }

  test('says that it can be written to, and again after each of its ends', { timeout: 60_000 }, async () => {
    const able = { to: 7, text: expect.stringContaining('isWritablePrimary') as string }
    expect(await answer()).toEqual(able)
    for (const how of ['TERM', 'KILL'] as const) {
      await mongo.restart(how)
      expect(await answer()).toEqual(able)
    }
  })

  test('halted it says nothing, and goes on afterwards', async () => {
    mongo.pause()
    await expect(answer()).rejects.toThrow()
    mongo.resume()
    expect((await answer()).to).toBe(7)
  })
})
