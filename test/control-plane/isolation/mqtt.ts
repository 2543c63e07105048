// What each caller may do over MQTT, beside the rows of the routes: publish, subscribe, also with others, and leave a will.

import type { IConnackPacket, IConnectPacket, Packet } from 'mqtt-packet'
import { expect, vi } from 'vitest'
import { type Client, connectPacket, openClient } from '../../pipeline/mqtt/client.ts'
import { type Caller, callers, thingKeys, type World } from './world.ts'

export const mqttRows = ([4, 5] as const).flatMap(version =>
  (['publish', 'subscribe', 'share', 'will'] as const).map(action => ({ name: `${action}, version ${version}`, version, action })),
)
export type MqttRow = (typeof mqttRows)[number]

export interface MqttCell {
  /** Of the CONNACK. */
  readonly connected: number
  /** The packet that follows; undefined for the end of the connection, and for a will. */
  readonly answered?: object | undefined
  /** Whether there is one message more in the log. */
  readonly isChanged: boolean
}

/** MQTT has no scheme: a password that is the key of a thing is one. */
const withKey: readonly Caller[] = [...thingKeys, 'keyAsToken']
/** The owner's token as a key is what the owner sends, and unknown keys are counted. */
const askers = callers.filter(caller => caller !== 'tokenAsKey')
const mayPublish: readonly Caller[] = ['connectedThing', 'keyAsToken']

function wantedMqttCell({ version, action }: MqttRow, caller: Caller): MqttCell {
  if (!withKey.includes(caller)) return { connected: version === 5 ? 0x86 : 4, isChanged: false }
  const isAllowed = mayPublish.includes(caller)
  if (action === 'will') return { connected: 0, isChanged: isAllowed }
  if (action === 'subscribe' || action === 'share') {
    const code = isAllowed ? 1 : version === 5 ? 0x87 : 0x80
    return { connected: 0, answered: { cmd: 'suback', granted: [code] }, isChanged: false }
  }
  // MQTT 3.1.1 has no codes for a message: its connection is closed.
  const answered = isAllowed || version === 5 ? { cmd: 'puback', reasonCode: isAllowed ? 0 : 0x87 } : undefined
  return { connected: 0, answered, isChanged: isAllowed }
}

export interface MqttSite {
  readonly world: World
  readonly port: number
  readonly countMessages: () => Promise<number>
  /** What the process has logged. */
  readonly printed: () => string
}

export interface AskedOverMqtt {
  readonly cell: MqttCell
  readonly client: Client
  /** What the server sent. */
  readonly packets: readonly Packet[]
}

/** Does it as the caller, on a connection of its own. */
export async function askOverMqtt(
  { world, port, countMessages, printed }: MqttSite,
  { version, action }: MqttRow,
  caller: Caller,
  channel: string,
): Promise<AskedOverMqtt> {
  const before = await countMessages()
  const clientId = `${action}-${version}-${caller}-${world.fresh()}`
  const topic = `channels/${channel}/messages/roof`
  const message = { topic, payload: Buffer.from('[{"n":"c","v":3}]'), qos: 1, retain: false } as const
  const client = await openClient(port, version)
  client.send(connectPacket(version, { ...credentialsOf(world, caller), ...(action === 'will' ? { will: message } : {}), clientId }))
  const connack = (await client.next()) as IConnackPacket
  const connected = (version === 5 ? connack.reasonCode : connack.returnCode)!
  const packets: Packet[] = [connack]
  let answered: object | undefined
  if (connected === 0 && action === 'will') {
    client.socket.destroy()
    // A will has no answer: one that is allowed is in the log, and of one that is not the process has a line.
    if (mayPublish.includes(caller)) await vi.waitFor(async () => expect(await countMessages()).toBe(before + 1), 10_000)
    else await vi.waitFor(() => expect(printed()).toMatch(new RegExp(`"client":"${clientId}".*message refused`)), 10_000)
  } else if (connected === 0) {
    if (action === 'publish') client.send({ ...message, cmd: 'publish', dup: false, messageId: 1 })
    else {
      const filter = `${action === 'share' ? `$share/of-${version}/` : ''}channels/${channel}/messages/#`
      client.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: filter, qos: 1 }] })
    }
    const answer = await client.next()
    if (answer !== undefined) packets.push(answer)
    answered = answer && answeredOf(answer)
  }
  return { cell: { connected, answered, isChanged: (await countMessages()) !== before }, client, packets }
}

function answeredOf(packet: Packet): object {
  if (packet.cmd === 'puback') return { cmd: 'puback', reasonCode: packet.reasonCode ?? 0 }
  return packet.cmd === 'suback' ? { cmd: 'suback', granted: packet.granted } : packet
}

function credentialsOf(world: World, caller: Caller): Partial<IConnectPacket> {
  const password = world.authorization(caller)?.replace(/^\w+ /, '')
  return password === undefined ? {} : { username: '', password: Buffer.from(password) }
}

/** What each caller gets, and is to get. */
export async function askAllOverMqtt(
  site: MqttSite,
  row: MqttRow,
): Promise<{ got: object; wanted: object; asked: readonly AskedOverMqtt[] }> {
  const asked: AskedOverMqtt[] = []
  // Unknown keys are counted, and the owner's token was one for many a row of the routes.
  await site.world.renew('owner')
  for (const caller of askers) asked.push(await askOverMqtt(site, row, caller, site.world.site.channel))
  return {
    got: Object.fromEntries(askers.map((caller, at) => [caller, asked[at]!.cell])),
    wanted: Object.fromEntries(askers.map(caller => [caller, wantedMqttCell(row, caller)])),
    asked,
  }
}

/** Whether a subscription was granted. */
export const isGranted = ({ packets }: AskedOverMqtt): boolean => packets.some(packet => packet.cmd === 'suback' && packet.granted[0] === 1)
