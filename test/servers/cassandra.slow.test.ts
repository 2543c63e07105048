// Cassandra as the tests have it: it answers in its own protocol, and does so again after it was ended, killed or halted.

import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { describeWithOwnCassandra } from './cassandra.ts'

/** A frame of version 4 of the native protocol without a body, and what the answer's fifth byte says. */
const [options, supported] = [5, 6]
const ask = Buffer.from([4, 0, 0, 1, options, 0, 0, 0, 0])

describeWithOwnCassandra('Cassandra', cassandra => {
  async function answer(): Promise<number | undefined> {
    const [host = '', port = ''] = cassandra.contactPoint.split(':')
    const socket = connect(Number(port), host)
    try {
      socket.write(ask)
      const [data] = (await once(socket, 'data', { signal: AbortSignal.timeout(5000) })) as [Buffer]
      return data[4]
    } finally {
      socket.destroy()
    }
  }

  test('says what it supports, and again after each of its ends', { timeout: 180_000 }, async () => {
    expect(await answer()).toBe(supported)
    for (const how of ['TERM', 'KILL'] as const) {
      await cassandra.restart(how)
      expect(await answer()).toBe(supported)
    }
  })

  test('halted it says nothing, and goes on afterwards', { timeout: 60_000 }, async () => {
    cassandra.pause()
    await expect(answer()).rejects.toThrow()
    cassandra.resume()
    expect(await answer()).toBe(supported)
  })
})
