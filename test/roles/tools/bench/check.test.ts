// What `sluice bench check` says of each message of a load, with a writer on fakes.

import { expect, test } from 'vitest'
import type { OutgoingMessage } from '../../../../pipeline/log.ts'
import { openDecoder } from '../../../../pipeline/writer/decode.ts'
import { subjectFilter } from '../../../../pipeline/writer/subject-filter.ts'
import { type CheckReport, type CheckTarget, checkLoad } from '../../../../roles/tools/bench/check.ts'
import { type LoadPlan, messagesOf } from '../../../../roles/tools/bench/messages.ts'
import type { StoreAudit } from '../../../../sinks/audit.ts'
import { openTransformer } from '../../../../transformers/select.ts'
import { type Site, siteWith } from '../../../pipeline/audit/site.ts'
import { openFakeTopicReader } from '../../../pipeline/fake-topic-reader.ts'
import { defaults, type Settings } from '../../../pipeline/writer/parts.ts'

const plan: LoadPlan = {
  seed: 3,
  messages: 40,
  devices: 4,
  channels: 2,
  mix: { 'record-senml': 1, 'pack-cbor': 1, 'truck-json': 1 },
  invalidShare: 0.2,
  startUs: 1_700_000_000_000_000,
  stepUs: 1000,
  protocol: 'http',
}
const sent = [...messagesOf(plan)]
const rows = sent.reduce((sum, message) => sum + message.rows, 0)
const invalid = sent.filter(message => message.rows === 0).length
const firstOf = (count: number): number => sent.findIndex(message => message.rows === count)
const transformer = openTransformer({ format: 'auto', contentType: 'application/senml+json', timeFields: [] })

const stored = (messages: readonly OutgoingMessage[] = sent, settings: Settings = {}): Promise<Site> =>
  siteWith(messages, { ...settings, transformer })

/** @param unacknowledged the number of a message that was not */
function checked(
  { parts, audit }: Site,
  { unacknowledged = -1, ...own }: Partial<CheckTarget> & { unacknowledged?: number } = {},
): Promise<CheckReport> {
  const target: CheckTarget = {
    topics: async () => [parts.reader.name],
    openTopic: async () => parts.reader,
    openDeadLettersTopic: async (_topic, owner) => parts.deadLettersOf(owner),
    openAudit: async () => audit,
    decoder: () => decoderOf('channels.>'),
    writer: 'writer',
    ...own,
  }
  const acknowledged = Uint8Array.from(sent, (_, number) => (number === unacknowledged ? 0 : 1))
  return checkLoad({ plan, acknowledged }, target, () => undefined)
}

const decoderOf = (subject: string) =>
  openDecoder({ transformer, subscribed: subjectFilter([subject]), message: defaults.message, clock: () => 1_700_000_100_000 })

test('a load of which each message is stored once, or is invalid and a dead letter', async () => {
  expect(await checked(await stored())).toEqual({
    messages: {
      planned: 40,
      acknowledged: 40,
      stored: 40 - invalid,
      rejected_invalid: invalid,
      rejected_valid: 0,
      lost: 0,
      doubled: 0,
      unacknowledged: 0,
    },
    rows: { expected: rows, stored: rows, distinct: rows, lost: 0, doubled: 0, other: 0 },
    in_flight: 0,
    first: [],
    holds: true,
  })
})

test('a message that was appended twice is doubled, and one that was never appended is lost', async () => {
  const [twice, never] = [firstOf(12), firstOf(1)]
  const report = await checked(await stored([...sent.filter((_, number) => number !== never), sent[twice]!]))
  expect(report).toMatchObject({
    messages: { stored: 40 - invalid - 1, lost: 1, doubled: 1 },
    rows: { expected: rows, stored: rows - 1 + 12, distinct: rows - 1, lost: 1, doubled: 12 },
    holds: false,
  })
  const said = report.first.map(line => line.replace(/ \(channel [^)]*\)/, ''))
  expect(said.sort()).toEqual(
    [
      `message ${twice} of the load: 12 of its rows are stored more than once`,
      `message ${never} of the load: 1 of its 1 rows are missing`,
    ].sort(),
  )
})

test('a message that was not acknowledged may be stored or not, but not in part', async () => {
  const number = firstOf(12)
  const site = await stored()
  expect(await checked(site, { unacknowledged: number })).toMatchObject({
    messages: { acknowledged: 39, stored: 39 - invalid, unacknowledged: 1 },
    holds: true,
  })
  site.world.store.rows.splice(
    site.world.store.rows.findIndex(({ position }) => position === ((1n << 56n) | BigInt(number))),
    1,
  )
  expect(await checked(site, { unacknowledged: number })).toMatchObject({ rows: { lost: 1 }, holds: false })
  const without = await stored(sent.filter((_, at) => at !== number))
  expect(await checked(without, { unacknowledged: number })).toMatchObject({
    messages: { acknowledged: 39, unacknowledged: 0 },
    rows: { expected: rows - 12, lost: 0 },
    holds: true,
  })
})

test('a valid message that the store refused is no loss, and is counted', async () => {
  const number = firstOf(12)
  const site = await stored(sent, {
    wrapSink: sink => ({
      ...sink,
      write(encoded, reject, signal) {
        const at = encoded.batch.messages.offset.indexOf(number)
        if (at >= 0 && at < encoded.batch.messages.length && !encoded.acknowledged.has(at))
          encoded.rejected.set(at, { message: at, rule: 'store-refused', reason: 'unlucky' })
        return sink.write(encoded, reject, signal)
      },
    }),
  })
  expect(await checked(site)).toMatchObject({ messages: { rejected_invalid: invalid, rejected_valid: 1, lost: 0 }, holds: true })
})

test('an invalid message without a dead letter is lost', async () => {
  const report = await checked(await stored(), { openDeadLettersTopic: async () => undefined })
  expect(report).toMatchObject({ messages: { lost: invalid }, rows: { lost: 0 }, holds: false })
  expect(report.first[0]).toMatch(/: it is invalid, and has no dead letter$/)
})

test('rows of others are counted apart, and so are messages that the writer has not reached', async () => {
  const others = [...messagesOf({ ...plan, seed: 4, invalidShare: 0, messages: 3 })]
  const site = await stored([...sent, ...others])
  await site.world.log.append(others.slice(0, 2))
  const other = others.reduce((sum, message) => sum + message.rows, 0)
  expect(await checked(site, { openTopic: async () => openFakeTopicReader(site.world.log) })).toMatchObject({
    rows: { distinct: rows, other },
    in_flight: 2,
    holds: true,
  })
})

test('rows of other logs, which some stores return too, are not counted', async () => {
  const site = await stored()
  const [row] = site.world.store.rows
  site.world.store.rows.push({ ...row!, position: row!.position + (1n << 56n) })
  const every = [{ first: 0n, last: 2n ** 63n - 1n }]
  const audit: StoreAudit = { ...site.audit, rows: (_ranges, ...more) => site.audit.rows(every, ...more) }
  expect(await checked(site, { openAudit: async () => audit })).toMatchObject({ rows: { stored: rows, other: 0 }, holds: true })
})

test('with other options than those of the writer there is no verdict', async () => {
  const checking = checked(await stored(), { decoder: () => decoderOf('channels.other') })
  await expect(checking).rejects.toThrow(/^a message of the load decodes to 0 rows instead of \d+: give the options of the writer$/)
})
