// A load's way over the protocols of devices: things that it creates on a platform publish over HTTP, or over MQTT with QoS 1.

import { Agent, request } from 'undici'
import { type MqttClient, openMqttClient } from '../../../bin/mqtt-client.ts'
import { ToolError } from '../../../bin/streams.ts'
import { baseOf } from '../target/remote.ts'
import type { Destination } from './load.ts'
import type { LoadMessage } from './messages.ts'

/** Things and channels by the numbers of devices and channels. */
export interface Devices {
  readonly channelIds: readonly string[]
  readonly thingIds: readonly string[]
  readonly keys: readonly string[]
}

/** Of a request that creates. */
const createdMax = 1000
const requestsAtOnce = 64
const publishesAtOnce = 1000
const connectionsAtOnce = 50
const answerMsMax = 20_000

/**
 * Creates channels and things, and connects each thing to one channel. They stay.
 *
 * @param url of the control plane
 * @param token of their owner
 * @throws ToolError
 */
export async function createDevices(
  url: string,
  token: string | undefined,
  { devices, channels }: { devices: number; channels: number },
): Promise<Devices> {
  if (token === undefined) throw new ToolError('--to needs the token of a user, who will own the things: give it with --token or SVC_TOKEN')
  const base = baseOf(url)
  const create = (path: string, body: object) =>
    post(`${base}${path}`, { authorization: `Bearer ${token}`, 'content-type': 'application/json' }, JSON.stringify(body))

  async function createAll<Created>(kind: 'channels' | 'things', count: number): Promise<Created[]> {
    const created: Created[] = []
    while (created.length < count) {
      const names = Array.from({ length: Math.min(createdMax, count - created.length) }, (_, at) => ({
        name: `load ${created.length + at}`,
      }))
      const answer = JSON.parse(await create(`/${kind}/bulk`, names)) as Record<typeof kind, Created[]>
      created.push(...answer[kind])
    }
    return created
  }

  const channelIds = (await createAll<{ id: string }>('channels', channels)).map(({ id }) => id)
  const things = await createAll<{ id: string; key: string }>('things', devices)
  for (const [nth, channel] of channelIds.entries()) {
    const own = things.flatMap(({ id }, device) => (device % channels === nth ? [id] : []))
    for (let at = 0; at < own.length; at += createdMax)
      await create('/connect', { channel_ids: [channel], thing_ids: own.slice(at, at + createdMax) })
  }
  return { channelIds, thingIds: things.map(({ id }) => id), keys: things.map(({ key }) => key) }
}

/** @param url of ingest */
export function openHttpDestination(url: string, { keys }: Devices): Destination {
  const base = baseOf(url)
  const agent = new Agent({ connections: requestsAtOnce, headersTimeout: answerMsMax })
  return {
    name: base,
    messagesMax: 1,
    sendsMax: requestsAtOnce,
    async send(messages) {
      for (const { device, channel, subtopic, contentType, payload } of messages) {
        const headers = { authorization: `Thing ${keys[device]}`, 'content-type': contentType }
        await post(`${base}/channels/${channel}/messages/${subtopic.replaceAll('.', '/')}`, headers, payload, agent)
      }
    },
    close: () => agent.close(),
  }
}

/** @throws ToolError for any answer that is not a success */
async function post(url: string, headers: Record<string, string>, body: string | Uint8Array, dispatcher?: Agent): Promise<string> {
  const asked = request(url, { method: 'POST', headers, body, ...(dispatcher === undefined ? {} : { dispatcher }) })
  try {
    const response = await asked
    const text = await response.body.text()
    if (response.statusCode < 300) return text
    throw new ToolError(`POST ${url} was answered with ${response.statusCode}: ${text.slice(0, 300)}`)
  } catch (error) {
    if (error instanceof ToolError) throw error
    throw new ToolError(`POST ${url} was not answered (${(error as Error).message})`, { cause: error })
  }
}

/** Each device has a connection. @throws ToolError if one is refused */
export async function openMqttDestination(url: string, { thingIds, keys }: Devices): Promise<Destination> {
  const clients: (Promise<MqttClient> | undefined)[] = []
  const clientOf = (device: number): Promise<MqttClient> =>
    (clients[device] ??= openMqttClient({ url, thing: thingIds[device]!, key: keys[device]! }))

  for (let first = 0; first < keys.length; first += connectionsAtOnce)
    await Promise.all(keys.slice(first, first + connectionsAtOnce).map((_, at) => clientOf(first + at)))

  async function publish({ device, channel, subtopic, payload, contentType }: LoadMessage): Promise<void> {
    const client = clientOf(device)
    try {
      await (await client).publish(`channels/${channel}/messages/${subtopic.replaceAll('.', '/')}`, payload, contentType)
    } catch (error) {
      // The next message of the device opens another connection.
      if (clients[device] === client) clients[device] = undefined
      await client.then(one => one.close()).catch(() => undefined)
      throw error
    }
  }

  return {
    name: url,
    messagesMax: 1,
    sendsMax: publishesAtOnce,
    async send(messages) {
      for (const message of messages) await publish(message)
    },
    async close() {
      for (const client of clients) await client?.then(one => one.close()).catch(() => undefined)
    },
  }
}
