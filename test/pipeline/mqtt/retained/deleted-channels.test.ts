// Retained messages of deleted channels are removed.

import { expect, onTestFinished, test } from 'vitest'
import { AccessUnavailableError, deletedChannelsMax } from '../../../../control-plane/client.ts'
import { LogUnavailableError } from '../../../../pipeline/log.ts'
import { retainedMessage } from '../../../conformance/retained.ts'
import { thing } from '../../ingest/site.ts'
import { openRetainedFile, openSite, ping } from '../site.ts'

test('the messages of a deleted channel are removed when the change arrives, and when it was missed', async () => {
  const inner = openRetainedFile()
  onTestFinished(() => inner.close())
  const [before, now, missed, stays] = ['before', 'now', 'missed', 'stays']
  for (const of of [before, now, missed, stays])
    for (const subtopic of ['a', 'b']) await inner.keep(retainedMessage(0, { channel: of, subtopic }))
  for (let at = 0; at < deletedChannelsMax; at++) await inner.keep(retainedMessage(0, { channel: `${at}` }))
  const deleted = new Set<string>([before])
  const asked: string[][] = []
  let failures = 1
  const site = await openSite({
    retained: { ...inner, ready: () => (failures-- > 0 ? Promise.reject(new LogUnavailableError('away')) : inner.ready()) },
    async deletedChannels(channels) {
      asked.push([...channels])
      if (failures-- > 0) throw new AccessUnavailableError('away')
      return channels.filter(channel => deleted.has(channel))
    },
  })
  const left = (): string[] => [...inner.channels()].filter(channel => !/\d/.test(channel))
  await expect.poll(left, { timeout: 10_000 }).toEqual([now, missed, stays])
  expect(asked.map(({ length }) => length)).toEqual([deletedChannelsMax, 4])
  deleted.add(now)
  site.change({ kind: 'channel', channel: 'unknown' })
  site.change({ kind: 'thing', thing })
  await ping(await site.connect())
  expect(asked).toHaveLength(2)
  site.change({ kind: 'channel', channel: now })
  await expect.poll(left).toEqual([missed, stays])
  expect(asked.slice(2)).toEqual([[now]])
  deleted.add(missed)
  failures = 2
  site.change({ kind: 'unheard' })
  await expect.poll(left, { timeout: 10_000 }).toEqual([stays])
  expect(site.said).toEqual([])
})
