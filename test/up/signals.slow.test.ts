// Stopping the platform as people and containers do, through `npm start`.

import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { firstOf, inDepth } from '../depth.ts'
import { call, makeSite, publish, readAll } from './operator.ts'
import { startedFolder, startPlatform } from './platform.ts'

const checkout = new URL('../..', import.meta.url).pathname

/** The process that npm runs: the signal must reach it, and npm must pass on its exit code. */
test.each(firstOf(['SIGTERM', 'SIGINT'] as const))('%s to npm start drains, exits with 0, and nothing published is lost', async signal => {
  await using folder = await startedFolder()
  let platform = await startPlatform({ data: folder.path, npmStartIn: checkout })
  const site = await makeSite(platform.url)
  const answers = await Promise.all(Array.from({ length: 50 }, (_, v) => publish(platform.url, site, [{ n: 'count', v }])))
  expect(new Set(answers.map(answer => answer.status))).toEqual(new Set([202]))
  expect(await platform.stop(signal)).toBe(0)
  await expect(call(platform.url, 'GET', '/livez')).rejects.toThrow()

  platform = await startPlatform({ data: folder.path })
  const numbers = (await readAll(platform.url, site)).map(record => Number(record.Value))
  expect(numbers.sort((a, b) => a - b)).toEqual(Array.from({ length: 50 }, (_, v) => v))
  expect(await platform.stop()).toBe(0)
})

inDepth(() => {
  test('a running request is answered after the signal', async () => {
    await using folder = await startedFolder()
    const platform = await startPlatform({ data: folder.path })
    const site = await makeSite(platform.url)
    const pending = Array.from({ length: 20 }, (_, v) => publish(platform.url, site, [{ n: 'count', v }]))
    await pending[0]
    const stopped = platform.stop()
    const settled = await Promise.allSettled(pending)
    const statuses = settled.map(result => (result.status === 'fulfilled' ? result.value.status : 'refused'))
    expect(statuses.filter(status => status !== 202 && status !== 503 && status !== 'refused')).toEqual([])
    expect(await stopped).toBe(0)
  })
})

test('a second signal exits immediately, even with a running request', async () => {
  await using folder = await startedFolder()
  const platform = await startPlatform({ data: folder.path })
  const { hostname, port } = new URL(platform.url)
  // A request whose body never arrives keeps the server open for its part of the drain.
  const socket = connect(Number(port), hostname)
  socket.on('error', () => undefined)
  socket.write(
    'POST /users HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n',
  )
  await once(socket, 'data')
  const exit = once(platform.process, 'exit')
  const stopping = platform.until(/"msg":"stopping"/)
  platform.process.kill('SIGTERM')
  await stopping
  platform.process.kill('SIGINT')
  expect(await exit).toEqual([130, null])
  socket.destroy()
})
