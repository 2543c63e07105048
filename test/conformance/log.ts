// The contract of every Log, for the fake and the real ones.

import { describe, expect, test } from 'vitest'
import { type Log, LogUnavailableError, MessageRefusedError, type OutgoingMessage } from '../../pipeline/log.ts'
import { outgoing } from '../pipeline/message.ts'

/** A log whose messages can be read, and whose disk or broker can be taken away. */
export interface LogUnderTest {
  readonly log: Log
  /** Every message in the log with its offset, in order. */
  read(): Promise<{ offset: number; message: OutgoingMessage }[]>
  /** Closes the log and opens the same one again. */
  reopen(): Promise<Log>
  /** The log cannot be written from now on, until `mend`. */
  break(): void
  mend(): void
  dispose(): Promise<void>
}

export function logConformance(name: string, open: () => Promise<LogUnderTest>): void {
  async function withLog(work: (under: LogUnderTest) => Promise<void>): Promise<void> {
    const under = await open()
    try {
      await work(under)
    } finally {
      await under.dispose()
    }
  }
  const payloads = async (under: LogUnderTest): Promise<string[]> =>
    (await under.read()).map(({ message }) => new TextDecoder().decode(message.payload))
  const text = (payload: string): OutgoingMessage => outgoing({ payload: new TextEncoder().encode(payload) })

  describe(`${name} fulfils the contract of a log`, () => {
    test('an append resolves with the positions in the given order', () =>
      withLog(async under => {
        const positions = await under.log.append([text('a'), text('b'), text('c')])
        expect(positions).toEqual([
          { partition: 0, offset: 0 },
          { partition: 0, offset: 1 },
          { partition: 0, offset: 2 },
        ])
        expect(await payloads(under)).toEqual(['a', 'b', 'c'])
      }))

    test('the messages of a whole append follow each other, and none is stored if one never can be', () =>
      withLog(async under => {
        const three = (nth: number): OutgoingMessage[] => ['a', 'b', 'c'].map(each => text(`${each}${nth}`))
        const refused = under.log.append([...three(0), outgoing({ createdUs: Number.NaN })], { isWhole: true })
        const appends = Array.from({ length: 20 }, (_, nth) => under.log.append(three(nth + 1), { isWhole: true }))
        await expect(refused).rejects.toBeInstanceOf(MessageRefusedError)
        const positions = (await Promise.all(appends)).map(each => each.map(({ offset }) => offset))
        expect(positions).toEqual(positions.map(([first]) => [first!, first! + 1, first! + 2]))
        const stored = await payloads(under)
        expect(stored).toHaveLength(60)
        expect(positions.map(([first]) => stored.slice(first, first! + 3))).toEqual(
          appends.map((_, at) => ['a', 'b', 'c'].map(each => `${each}${at + 1}`)),
        )
      }))

    test('an append of nothing resolves with nothing', () =>
      withLog(async under => {
        expect(await under.log.append([])).toEqual([])
        expect(await under.read()).toEqual([])
      }))

    test('concurrent appends each get their own positions, and are kept in order', () =>
      withLog(async under => {
        const sent = Array.from({ length: 200 }, (_, at) => `message ${at}`)
        const positions = await Promise.all(sent.map(payload => under.log.append([text(payload)])))
        const stored = await under.read()
        expect(stored.map(({ offset }) => offset)).toEqual(sent.map((_, at) => at))
        expect(positions.flat().map(({ offset }) => offset)).toEqual(sent.map((_, at) => at))
        expect(await payloads(under)).toEqual(sent)
      }))

    test('a message is stored unchanged, with every part of its envelope and its headers', () =>
      withLog(async under => {
        const message = outgoing({
          channel: 'chännel',
          subtopic: '温度.\u{1F321}',
          publisher: '',
          protocol: 'mqtt',
          contentType: '',
          createdUs: 1_700_000_000_123_456,
          createdRestNs: 789,
          payload: Uint8Array.from({ length: 256 }, (_, byte) => byte),
          headers: [
            { key: 'trace', value: 'a "quoted"\nline' },
            { key: 'trace', value: 'again' },
          ],
        })
        const bare = outgoing({ channel: '', payload: new Uint8Array(0) })
        await under.log.append([message, bare])
        const [first, second] = await under.read()
        expect(first!.message).toEqual(message)
        expect(second!.message).toEqual({ ...bare, headers: [] })
      }))

    test('texts and times of any kind are stored as they are, but U+FFFD for half a surrogate pair', () =>
      withLog(async under => {
        const message = (half: string): OutgoingMessage =>
          outgoing({
            channel: `a\0b\n\u{1F321}${'x'.repeat(40_000)}`,
            subtopic: '\0',
            publisher: `half of ${half}`,
            protocol: ' ',
            contentType: '\t',
            createdUs: Number.MAX_SAFE_INTEGER,
            createdRestNs: 999,
            payload: new Uint8Array(300_000).fill(0xff),
            headers: [
              { key: '', value: '' },
              { key: `\0 ${half}`, value: half },
              ...Array.from({ length: 2000 }, (_, at) => ({ key: 'x', value: at % 2 === 0 ? null : String(at) })),
            ],
          })
        await under.log.append([message('\ud83c'), text('next')])
        const [stored, next] = await under.read()
        const { headers, ...rest } = stored!.message
        const wellFormed = (text: string): string => text.toWellFormed()
        const kept = headers!.map(({ key, value }) => ({
          key: wellFormed(key),
          value: typeof value === 'string' ? wellFormed(value) : value,
        }))
        expect({ ...rest, publisher: wellFormed(rest.publisher), headers: kept }).toEqual(message('\ufffd'))
        expect(new TextDecoder().decode(next!.message.payload)).toBe('next')
      }))

    test('acknowledged messages are there after the log is reopened, under the same id, and offsets continue', () =>
      withLog(async under => {
        const { id } = under.log
        await under.log.append([text('before')])
        const log = await under.reopen()
        expect(log.id).toBe(id)
        expect(await log.append([text('after')])).toEqual([{ partition: 0, offset: 1 }])
        expect(await payloads(under)).toEqual(['before', 'after'])
      }))

    test('while the log cannot be written, messages are refused with LogUnavailableError, none is stored, and no offset is skipped', () =>
      withLog(async under => {
        await under.log.append([text('before')])
        under.break()
        const refused = await Promise.allSettled([under.log.append([text('x')]), under.log.append([text('y'), text('z')])])
        for (const result of refused) {
          expect(result.status).toBe('rejected')
          expect((result as PromiseRejectedResult).reason).toBeInstanceOf(LogUnavailableError)
        }
        under.mend()
        expect(await under.log.append([text('after')])).toEqual([{ partition: 0, offset: 1 }])
        expect(await payloads(under)).toEqual(['before', 'after'])
      }))

    test.each<[string, Partial<OutgoingMessage>]>([
      ['without a time', { createdUs: Number.NaN }],
      ['with a time that is no safe integer', { createdUs: 2 ** 53 }],
      ['larger than the queue', { payload: new Uint8Array(17 * 1024 * 1024) }],
    ])('a message %s is refused for good, and no other', (_name, fields) =>
      withLog(async under => {
        const [refused] = await Promise.allSettled([under.log.append([text('x'), outgoing(fields)]), under.log.append([text('y')])])
        expect((refused as PromiseRejectedResult).reason).toBeInstanceOf(MessageRefusedError)
        expect(await payloads(under)).toEqual(['y'])
      }),
    )

    test('close waits for running appends and refuses later ones; a second close does nothing', () =>
      withLog(async under => {
        const underWay = under.log.append([text('last')])
        await under.log.close()
        expect(await underWay).toEqual([{ partition: 0, offset: 0 }])
        await expect(under.log.append([text('late')])).rejects.toBeInstanceOf(LogUnavailableError)
        await under.log.close()
        await under.reopen()
        expect(await payloads(under)).toEqual(['last'])
      }))
  })
}
