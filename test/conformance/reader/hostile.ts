// Texts of strangers in every place of a query: they are compared as they are, and nothing of them becomes part of a statement.

import { describe, expect, test } from 'vitest'
import type { Selection } from '../../../readers/query.ts'
import type { ReaderBench } from './bench.ts'
import { channel, formats, records } from './fixture.ts'
import { selected, selectionOf } from './oracle.ts'

const texts = [
  `'`,
  `"`,
  `' OR '1'='1`,
  `'; DROP TABLE messages; --`,
  '$where',
  '{"$ne":null}',
  '") |> drop(columns: ["x"]) //',
  '${1+1}',
  '\\',
  '\\"',
  'a\nb\r\t',
  '%',
  '_',
  '.*',
  'numbеr',
  '𝓃umber',
  '\u200bnumber',
  'é',
  'e\u0301',
  'x'.repeat(100_000),
]

export function hostileSuite(bench: ReaderBench): void {
  describe('texts of strangers', () => {
    const places: Readonly<Record<string, (text: string) => Partial<Selection>>> = {
      channel: text => ({ channel: text }),
      format: text => ({ format: text.slice(0, 1024) }),
      publisher: text => ({ publisher: text }),
      subtopic: text => ({ subtopic: text }),
      protocol: text => ({ protocol: text }),
      name: text => ({ name: text }),
      unit: text => ({ unit: text }),
      'a text': text => ({ stringValue: text }),
      bytes: text => ({ dataValue: Buffer.from(text) }),
      'the path of a field': text => ({ format: formats[0], payload: [{ path: [text, text], text: 'x' }] }),
      'the text of a field': text => ({ format: formats[0], payload: [{ path: ['b'], text }] }),
    }

    test.each(Object.entries(places))('as %s they find what has them, which is nothing', async (_place, of) => {
      for (const text of texts) {
        const some = of(text)
        const expected = selected(bench.stored, selectionOf({ channel, ...some })).length
        expect(await bench.read(some), text.slice(0, 100)).toHaveLength(expected)
        expect(await bench.count(some), text.slice(0, 100)).toBe(expected)
      }
      expect(await bench.read()).toHaveLength(records.rows.length)
    })
  })
}
