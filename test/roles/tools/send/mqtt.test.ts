// `./sluice send --mqtt` publishes as a device does, and says why a message was refused and what is uncertain.

import { expect, onTestFinished, test } from 'vitest'
import type { Destination } from '../../../../roles/tools/send/destination.ts'
import type { InputMessage } from '../../../../roles/tools/send/input.ts'
import { openMqttDestination } from '../../../../roles/tools/send/mqtt.ts'
import { channel, key, thing } from '../../../pipeline/ingest/site.ts'
import { holdAppends, type MqttSite, openSite } from '../../../pipeline/mqtt/site.ts'

async function openDestination({ port }: Pick<MqttSite, 'port'>, own: { key?: string; publisher?: string } = {}): Promise<Destination> {
  const destination = await openMqttDestination({ url: `mqtt://127.0.0.1:${port}`, key, publisher: '', ...own })
  onTestFinished(() => destination.close())
  return destination
}

const messageOf = (text: string, own: Partial<InputMessage> = {}): InputMessage => ({
  channel,
  subtopic: 'a.b',
  publisher: '',
  contentType: 'application/senml+json',
  payload: Buffer.from(`[{"n":"${text}","v":1}]`),
  ...own,
})

/** @returns how many were acknowledged, and why sending ended */
async function send(destination: Destination, messages: readonly InputMessage[]): Promise<[number, string]> {
  let acknowledged = 0
  let failure = ''
  await destination
    .send(messages, count => {
      acknowledged += count
    })
    .catch((error: Error) => {
      failure = error.message
    })
  return [acknowledged, failure]
}

test('messages are published with their subtopic and content type, and counted when they are acknowledged', async () => {
  const site = await openSite()
  const destination = await openDestination(site, { publisher: thing })
  const messages = [
    messageOf('first', { publisher: thing }),
    messageOf('', { publisher: thing, subtopic: 'state', contentType: 'application/json', payload: Buffer.from('{"on":true}') }),
    messageOf('third', { publisher: thing, subtopic: '' }),
  ]
  expect(await send(destination, messages)).toEqual([3, ''])
  expect(site.log.messages).toMatchObject([
    { channel, subtopic: 'a.b', publisher: thing, protocol: 'mqtt', contentType: 'application/senml+json' },
    { subtopic: 'state', contentType: 'application/json' },
    { subtopic: '' },
  ])
})

test('no more are sent at once than the server takes', async () => {
  const site = await openSite({ inFlightMax: 3 })
  expect((await openDestination(site)).messagesMax).toBe(3)
})

test('a refused message ends it with the reason; those beside it that were acknowledged are counted', async () => {
  const destination = await openDestination(await openSite())
  const messages = [
    messageOf('a'),
    messageOf('', { contentType: 'application/json', subtopic: '', payload: Buffer.from('{}') }),
    messageOf('b'),
  ]
  const [acknowledged, failure] = await send(destination, messages)
  expect(acknowledged).toBe(2)
  expect(failure).toMatch(/^a message was refused \(reason code 0x90\): .*subtopic/)
})

test.each([
  [{ key: 'wrong' }, /refused the connection \(reason code 0x86\): unknown thing key/],
  [{ key: '' }, /--mqtt needs the key/],
])('a connection with %o is refused', async (own, sentence) => {
  const site = await openSite()
  await expect(openDestination(site, own)).rejects.toThrow(sentence)
})

test.each(['127.0.0.1:1883', 'http://127.0.0.1', 'mqtt://'])('%s is not an address', async url => {
  await expect(openMqttDestination({ url, key, publisher: '' })).rejects.toThrow(/is not an address for MQTT/)
})

test('a message of another thing is not sent', async () => {
  const site = await openSite()
  const [, failure] = await send(await openDestination(site), [messageOf('a', { publisher: 'another' })])
  expect(failure).toMatch(/publisher "another"/)
  expect(site.log.messages).toEqual([])
})

test('after the end of the connection it says how many are uncertain', async () => {
  const { waiting, append } = holdAppends()
  const site = await openSite({ append })
  const destination = await openDestination(site)
  const sent = send(destination, [messageOf('a'), messageOf('b')])
  await expect.poll(() => waiting.length).toBeGreaterThan(0)
  const closed = site.close(0)
  const [acknowledged, failure] = await sent
  expect(acknowledged).toBe(0)
  expect(failure).toMatch(/closed the connection.*: the next 2 may or may not be stored$/)
  for (const release of waiting) release()
  await closed
})
