// A bridge: what it acknowledges to a broker, and when; and what it does when the broker or the log is away.

import { expect, test } from 'vitest'
import { LogUnavailableError, MessageRefusedError } from '../../../pipeline/log.ts'
import { fixture } from '../ingest/device.ts'
import { openSite, type Side, type Site } from './broker.ts'

const away = new LogUnavailableError('no broker of Kafka answers')

async function acknowledged(side: Side): Promise<number | undefined> {
  const packet = await side.next()
  return packet?.cmd === 'puback' ? packet.messageId : undefined
}

async function refusals({ registry }: Site): Promise<Record<string, number>> {
  const { values = [] } = (await registry.getSingleMetric('component_errors_total')?.get()) ?? {}
  return Object.fromEntries(values.map(({ labels, value }) => [labels['error_code'], value]))
}

test('it asks for a session that stays, a share of the messages, QoS 1 and no retained messages', async () => {
  const login = { username: 'sluice', password: 'secret' }
  const site = await openSite({ ...login, topics: ['plant/#', 'hall/+'] })
  const { connect, subscribe } = await site.accept()
  expect(connect).toMatchObject({
    clean: false,
    clientId: 'bridge-1',
    protocolVersion: 5,
    username: 'sluice',
    password: Buffer.from('secret'),
  })
  expect(connect.properties).toMatchObject({ sessionExpiryInterval: 3_600, receiveMaximum: 10 })
  expect(subscribe.subscriptions).toMatchObject([
    { topic: '$share/sluice/plant/#', qos: 1, rh: 2 },
    { topic: '$share/sluice/hall/+', qos: 1, rh: 2 },
  ])
})

test('without a share, and with MQTT 3.1.1, the subscription is a plain one', async () => {
  for (const own of [{ share: '' }, { version: '3.1.1' }] as const) {
    const site = await openSite(own)
    const { connect, subscribe } = await site.accept()
    expect(connect).toMatchObject({ clean: false, protocolVersion: own.version === undefined ? 5 : 4 })
    expect(subscribe.subscriptions).toMatchObject([{ topic: 'plant/#', qos: 1 }])
  }
})

test('over TLS it believes the CA that it is given, and no other', async () => {
  const site = await openSite({}, { ca: fixture('ca') })
  const side = await site.accept()
  side.publish(1, 'plant')
  ;(await site.given()).store()
  expect(await acknowledged(side)).toBe(1)
  const other = await openSite({}, { ca: fixture('stranger') })
  await expect.poll(() => other.lines[0]).toMatch(/^the MQTT broker is away \(.*certificate/)
})

test.each(['5', '3.1.1'] as const)(
  'many messages wait for the log at once, and each is acknowledged in order when it has it (%s)',
  async version => {
    const site = await openSite({ version })
    const side = await site.accept()
    for (const id of [7, 8, 9]) side.publish(id, `plant/${id}`)
    const [first, second, third] = [await site.given(), await site.given(), await site.given()]
    expect([first, second, third].map(({ message }) => message.channel)).toEqual(['plant/7', 'plant/8', 'plant/9'])
    third.store()
    second.store()
    // Its way to the log and back is later than an acknowledgement would be.
    side.publish(10, 'plant/10')
    const fourth = await site.given()
    let isAcknowledged = false
    const next = acknowledged(side).finally(() => (isAcknowledged = true))
    side.publish(11, 'plant/11')
    const fifth = await site.given()
    expect(isAcknowledged).toBe(false)
    first.store()
    expect([await next, await acknowledged(side), await acknowledged(side)]).toEqual([7, 8, 9])
    fourth.store()
    fifth.store()
    expect([await acknowledged(side), await acknowledged(side)]).toEqual([10, 11])
  },
)

test('with as many messages as may wait, nothing more is read', async () => {
  const site = await openSite({ inFlightMax: 2, version: '3.1.1' })
  const side = await site.accept()
  for (const id of [1, 2, 3]) side.publish(id, 'plant')
  const first = await site.given()
  const second = await site.given()
  expect(site.waiting()).toBe(0)
  second.store()
  const third = await site.given()
  first.store()
  third.store()
  expect([await acknowledged(side), await acknowledged(side), await acknowledged(side)]).toEqual([1, 2, 3])
})

test('while the log is away nothing is acknowledged or taken, and then everything is, in order', async () => {
  const site = await openSite()
  const side = await site.accept()
  for (const id of [1, 2, 3]) side.publish(id, `plant/${id}`)
  for (let count = 0; count < 3; count++) (await site.given()).fail(away)
  side.publish(4, 'plant/4')
  for (let attempt = 0; attempt < 4; attempt++) {
    const { message, fail } = await site.given()
    expect(message.channel).toBe('plant/1')
    fail(away)
  }
  const order: string[] = []
  while (order.at(-1) !== 'plant/4') {
    const { message, store } = await site.given()
    order.push(message.channel)
    store()
  }
  expect(order).toEqual(['plant/1', 'plant/2', 'plant/3', 'plant/4'])
  for (const id of [1, 2, 3, 4]) expect(await acknowledged(side)).toBe(id)
})

test('an outage of the log is said once, and the end of it', async () => {
  const site = await openSite()
  const side = await site.accept()
  side.publish(1, 'plant')
  for (let attempt = 0; attempt < 4; attempt++) (await site.given()).fail(away)
  ;(await site.given()).store()
  expect(await acknowledged(side)).toBe(1)
  expect(site.lines.filter(line => line.includes('Kafka'))).toMatchObject([
    expect.stringMatching(/^Kafka is away \(no broker of Kafka answers\).*: messages wait at the broker$/),
    expect.stringMatching(/^Kafka is back/),
  ])
})

test('a message without a channel goes into the log without a key, for a dead letter, and stops no other', async () => {
  const site = await openSite({ envelope: { channel: ['topic:3'] } })
  const side = await site.accept()
  side.publish(1, 'plant/hall', { properties: { userProperties: { device: 'press-7' } } })
  side.publish(2, 'plant/hall/press-7')
  const [first, second] = [await site.given(), await site.given()]
  expect(first.message).toMatchObject({
    key: null,
    payload: Buffer.from('{"v":1}'),
    headers: [
      { key: 'mqtt-fault', value: 'no-channel: the message has no channel: none was found in level 3 of the topic' },
      { key: 'mqtt-topic', value: 'plant/hall' },
      { key: 'device', value: 'press-7' },
    ],
  })
  expect(second.message).toMatchObject({ channel: 'press-7' })
  first.store()
  second.store()
  expect([await acknowledged(side), await acknowledged(side)]).toEqual([1, 2])
  expect(await refusals(site)).toEqual({ 'no-channel': 1 })
  expect(site.lines.filter(line => line.includes('dead letter'))).toHaveLength(1)
})

test('a message that the log can never store is counted, logged and acknowledged', async () => {
  const site = await openSite()
  const side = await site.accept()
  for (const id of [1, 2, 3]) side.publish(id, 'plant')
  const given = [await site.given(), await site.given(), await site.given()]
  for (const { fail } of given.slice(0, 2)) fail(new MessageRefusedError('it is larger than the topic allows'))
  given[2]!.store()
  for (const id of [1, 2, 3]) expect(await acknowledged(side)).toBe(id)
  expect(await refusals(site)).toEqual({ refused: 2 })
  expect(site.lines.filter(line => line.includes('refused'))).toEqual([
    'a message of the broker is refused: it is acknowledged, and lost (it is larger than the topic allows)',
  ])
})

test('after the end of a connection it connects again, and acknowledges there only what came there', async () => {
  const site = await openSite()
  const first = await site.accept()
  first.publish(1, 'plant/before')
  const before = await site.given()
  first.close()
  const second = await site.accept({ sessionPresent: true })
  before.store()
  second.publish(2, 'plant/after')
  ;(await site.given()).store()
  expect(await acknowledged(second)).toBe(2)
  expect(site.lines.filter(line => line.includes('MQTT broker'))).toMatchObject([
    expect.stringMatching(/^the MQTT broker is away .*next in 0\.\d s$/),
    expect.stringMatching(/^the MQTT broker is back/),
  ])
})

test('a session that the broker has lost is logged', async () => {
  const site = await openSite()
  ;(await site.accept()).close()
  const side = await site.accept({ sessionPresent: false })
  side.publish(1, 'plant')
  ;(await site.given()).store()
  await acknowledged(side)
  expect(site.lines).toContainEqual(expect.stringMatching(/^the broker has lost the session/))
})

test.each([
  ['a password that is refused', { reasonCode: 0x87 }, 1, /Not authorized: check broker\.username and broker\.password/],
  ['no shared subscriptions', { properties: { sharedSubscriptionAvailable: false } }, 1, /leave broker\.share empty/],
  ['QoS 0 instead of 1', {}, 0, /does not grant QoS 1 for \$share\/sluice\/plant\/#/],
  ['a subscription that is refused', {}, 0x87, /Subscribe error: Not authorized/],
])('%s is logged with what to do, and tried again', async (_what, connack, granted, sentence) => {
  const site = await openSite()
  await site.accept(connack, granted)
  const side = await site.accept()
  side.publish(1, 'plant')
  ;(await site.given()).store()
  expect(await acknowledged(side)).toBe(1)
  expect(site.lines[0]).toMatch(sentence)
})

test('a stop waits until what was taken is stored, acknowledges it, and says goodbye', async () => {
  const site = await openSite()
  const side = await site.accept()
  side.publish(1, 'plant')
  const taken = await site.given()
  const stopped = site.stop()
  side.publish(2, 'plant')
  const first = acknowledged(side)
  for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate)
  taken.store()
  expect(await first).toBe(1)
  expect(await side.next()).toMatchObject({ cmd: 'disconnect' })
  await stopped
  expect(site.waiting()).toBe(0)
})

test('a retained message of MQTT 3.1.1 is older than the subscription: it is acknowledged and not stored', async () => {
  const site = await openSite({ version: '3.1.1' })
  const side = await site.accept()
  side.publish(1, 'plant/retained', { retain: true })
  side.publish(2, 'plant/live')
  const { message, store } = await site.given()
  expect(message.channel).toBe('plant/live')
  store()
  expect([await acknowledged(side), await acknowledged(side)]).toEqual([1, 2])
})
