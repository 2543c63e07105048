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
import { numbers } from '../writer/numbers.ts'
import { defaults, makeWorld, type Settings, startWriter, type World } from '../writer/parts.ts'

export interface Site {
  readonly world: World
  readonly books: Map<string, MessageCounts>
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
  const books = new Map([['1/0', writer.counts().get(logPartition(0, 0))!]])
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

export function decoderFor(subjects = ['channels.>']) {
  return openDecoder({
    transformer: numbers,
    subscribed: subjectFilter(subjects),
    message: defaults.message,
    clock: () => 1_700_000_100_000,
  })
}
