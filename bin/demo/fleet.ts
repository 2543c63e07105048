// Devices that publish at a steady pace and, like real ones, send again what got no answer; and what became of each message.

import { setTimeout as wait } from 'node:timers/promises'
import { inspect } from 'node:util'
import { type MqttClient, openMqttClient } from '../mqtt-client.ts'
import { ToolError } from '../streams.ts'
import { ask } from './ask.ts'

const devicesCount = 40
const senml = 'application/senml+json'
const intervalMs = 40
const sendAgainMs = 100
/** A start after a kill takes seconds, and much longer on a machine that is busy. */
const answerMsMax = 300_000

interface Device {
  readonly id: string
  readonly name: string
  readonly key: string
}

export type Fleet = Awaited<ReturnType<typeof openFleet>>

/** Creates a channel and the devices. @param user the header of their owner */
export async function openFleet(url: string, user: { authorization: string }) {
  const own = async <Answer>(path: string, body?: object): Promise<Answer> => JSON.parse(await ask(url, path, user, body)) as Answer
  const names = Array.from({ length: devicesCount }, (_, nth) => ({ name: `demo-${String(nth + 1).padStart(2, '0')}` }))
  const { channels } = await own<{ channels: [{ id: string }] }>('/channels/bulk', [{ name: 'demo' }])
  const { things } = await own<{ things: Device[] }>('/things/bulk', names)
  await own('/connect', { channel_ids: [channels[0].id], thing_ids: things.map(({ id }) => id) })
  const messages = `/channels/${channels[0].id}/messages`
  const [first, second] = things as [Device, Device]

  /** How often each message was sent, by name and time of its record. */
  const sent = new Map<string, number>()
  /** How long it took from the first sending to the acknowledgement and, of those of the first device, until the reader had them. */
  const [acknowledgedMs, readableMs]: [number[], number[]] = [[], []]

  let client: MqttClient | undefined

  const post = ({ key }: { key: string }, pack: object): Promise<string> =>
    ask(url, messages, { authorization: `Thing ${key}`, 'content-type': senml }, [pack])

  /** Over MQTT, if the platform says where on the same machine. It connects again after an error. */
  async function publishOverMqtt(device: Device, pack: object): Promise<void> {
    try {
      if (client === undefined) {
        const { mqtt } = (await own<{ links: { mqtt?: string } }>('/')).links
        if (mqtt === undefined || new URL(mqtt).hostname !== new URL(url).hostname) return void (await post(device, pack))
        client = await openMqttClient({ url: mqtt, thing: device.id, key: device.key })
      }
      await client.publish(messages.slice(1), Buffer.from(JSON.stringify([pack])), senml)
    } catch (cause) {
      client = undefined
      // It may succeed later, whatever it is.
      throw new Error('a message over MQTT was not acknowledged', { cause })
    }
  }

  /** Resolves when it is acknowledged, however often it has to be sent. @returns the time of its record */
  async function publishOne(device: Device): Promise<number> {
    const [timeMs, startedMs] = [Date.now(), performance.now()]
    for (let times = 1; ; ) {
      sent.set(`${device.name} ${timeMs}`, times)
      try {
        const pack = { n: device.name, t: timeMs / 1000, u: 'Cel', v: Number((18 + 4 * Math.sin(timeMs / 2000)).toFixed(2)) }
        await (device === second ? publishOverMqtt(device, pack) : post(device, pack))
        acknowledgedMs.push(performance.now() - startedMs)
        return timeMs
      } catch (error) {
        if (error instanceof ToolError) throw error
        if (performance.now() - startedMs > answerMsMax) throw new ToolError(`${url} acknowledges nothing`, { cause: error })
        // Where nothing listens, nothing was sent; the error may be the cause of another one.
        if (!inspect(error).includes('connect ECONNREFUSED')) times++
        await wait(sendAgainMs)
      }
    }
  }

  /** With the first device; resolves when the reader returns the message. */
  async function publishAndRead(): Promise<void> {
    const startedMs = performance.now()
    const path = `${messages}?name=${first.name}&from=${(await publishOne(first)) / 1000}&count=none`
    // There is no answer while the platform is away.
    while (!(await ask(url, path, user).catch(() => '')).includes(first.name)) {
      if (performance.now() - startedMs > answerMsMax) throw new ToolError(`${url} stores nothing: see ${url}/health`)
      await wait(10)
    }
    readableMs.push(performance.now() - startedMs)
  }

  return {
    acknowledgedMs,
    readableMs,
    sentAgain: () => [...sent.values()].filter(times => times > 1).length,
    /** Resolves after `signal`, when all that was sent is acknowledged. @throws ToolError */
    async publish(signal: AbortSignal): Promise<void> {
      const publishing = things.map(async device => {
        while (!signal.aborted) {
          const dueMs = performance.now() + intervalMs
          await (device === first ? publishAndRead() : publishOne(device))
          await wait(Math.max(1, dueMs - performance.now()))
        }
      })
      await Promise.all(publishing)
    },
    publishAndRead,
    publishPoison: () => post(first, { n: 'temperature', v: 21.5, vs: 'two values' }),
    deadLetters: async () => (await own<{ letters: { id: string; rule: string; reason: string }[] }>('/admin/dead-letters')).letters,
    /** How many records are stored. */
    async count(): Promise<number> {
      const page = await own<{ messages: { Count: number }[] }>(`${messages}?aggregation=count&interval=1d&limit=1000`)
      return page.messages.reduce((sum, { Count }) => sum + Count, 0)
    },
    /** Reads everything. What was sent again may be stored again: a device does not know whether the first try arrived. */
    async compare(): Promise<{ missing: number; excess: number; again: number }> {
      const lines = (await ask(url, `${messages}?limit=all`, { ...user, accept: 'application/x-ndjson' })).trim().split('\n')
      const records = lines.map(line => JSON.parse(line) as { Name: string; Time: number })
      const rows = Map.groupBy(records, ({ Name, Time }) => `${Name} ${Math.round(Time * 1000)}`)
      const missing = [...sent.keys()].filter(key => !rows.has(key)).length
      const excess = [...rows].reduce((sum, [key, found]) => sum + Math.max(0, found.length - (sent.get(key) ?? 0)), 0)
      return { missing, excess, again: records.length - excess - (sent.size - missing) }
    },
  }
}
