// A writer that has worked on fakes, with the inputs of verify and trace: its log, its store with ledger, its dead letters.

import { type VerifyParts, type VerifyReport, verify } from '../../../pipeline/audit/verify.ts'
import { openDeadLetterQueue } from '../../../pipeline/dead-letters/queue.ts'
import type { OutgoingMessage } from '../../../pipeline/log.ts'
import { openDecoder } from '../../../pipeline/writer/decode.ts'
import { subjectFilter } from '../../../pipeline/writer/subject-filter.ts'
import type { StoreAudit } from '../../../sinks/audit.ts'
import type { MessageCounts } from '../../../sinks/sink.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { openFakeAudit } from '../../sinks/fake-audit.ts'
import { openFakeTopicReader } from '../fake-topic-reader.ts'
import { outgoing } from '../message.ts'
import { numbers, pack, text } from '../writer/numbers.ts'
import { defaults, makeWorld, type Settings, startWriter, type World } from '../writer/parts.ts'

export interface Site {
  readonly world: World
  readonly books: Map<string, MessageCounts & { copiedBelow?: number }>
  readonly parts: VerifyParts
  readonly audit: StoreAudit
  readonly deadLetters: () => ReturnType<typeof openDeadLetterQueue>
  readonly verify: (more?: Partial<VerifyParts>) => Promise<VerifyReport>
}

/** The log with these messages, all of which the writer has passed. */
export async function siteWith(messages: readonly OutgoingMessage[], settings: Settings & { deletedBelow?: number } = {}): Promise<Site> {
  const world = makeWorld()
  await world.log.append(messages)
  if (settings.deletedBelow !== undefined) world.log.deleteBelow(settings.deletedBelow)
  const { writer } = await startWriter(world, settings)
  while ((world.log.committed.get('writer') ?? 0) < messages.length) await new Promise(resolve => setTimeout(resolve, 2))
  await writer.stop()
  const books: Site['books'] = new Map([['1/0', writer.counts().get(logPartition(0, 0))!]])
  const audit = openFakeAudit(world.store, books)
  const parts: VerifyParts = {
    reader: openFakeTopicReader(world.log),
    audit,
    writer: 'writer',
    deadLettersOf: async () => openFakeTopicReader(world.deadLetters),
    decoder: decoderFor(settings.subjects),
  }
  return {
    world,
    books,
    parts,
    audit,
    deadLetters: () =>
      openDeadLetterQueue({
        reader: openFakeTopicReader(world.deadLetters),
        log: world.deadLetters,
      }),
    verify: more => verify({ ...parts, ...more }),
  }
}

/** Eight messages, one of each kind: stored, empty, undecodable, filtered, of several rows, refused by the store. */
export async function everyKind(): Promise<Site> {
  const other = { ...pack(5), channel: 'c2' }
  const messages = [pack(1), pack(), text('no numbers'), other, pack(6, 7, 8), pack(13), pack(9), outgoing({ channel: '' })]
  const refusing = await siteWith(messages, {
    subjects: ['channels.c1.>'],
    wrapSink: sink => ({
      ...sink,
      async write(encoded, reject, signal) {
        const { batch, acknowledged } = encoded
        const at = batch.messages.offset.indexOf(5)
        if (at >= 0 && at < batch.messages.length && !acknowledged.has(at)) {
          encoded.rejected.set(at, { message: at, rule: 'store-refused', reason: 'unlucky' })
        }
        return sink.write(encoded, reject, signal)
      },
    }),
  })
  return { ...refusing, verify: more => refusing.verify({ decoder: decoderFor(['channels.c1.>']), ...more }) }
}

export function decoderFor(subjects = ['channels.>']) {
  return openDecoder({
    transformer: numbers,
    subscribed: subjectFilter(subjects),
    message: defaults.message,
    clock: () => 1_700_000_100_000,
  })
}

/** The first row of a message, by its place in the store's list. */
export function rowAt(site: Site, offset: number): number {
  return site.world.store.rows.findIndex(({ position }) => position === ((1n << 56n) | BigInt(offset)))
}
