// JSON bodies that are expensive for their size, with a given size and number of keys and values.

export interface HostileBody {
  readonly name: string
  /** @param partsMax opening brackets, commas and colons; blanks fill the rest of the bytes */
  readonly make: (bytes: number, partsMax: number) => string
}

/** Repeats `part` as often as it fits, separated by commas. */
function list(part: string | ((nth: number) => string), head = '[', tail = ']'): HostileBody['make'] {
  return (bytes, partsMax) => {
    const items: string[] = []
    let bytesLeft = bytes - head.length - tail.length
    let partsLeft = partsMax - partsOf(head + tail)
    for (let nth = 0; ; nth++) {
      const item = typeof part === 'string' ? part : part(nth)
      bytesLeft -= item.length + 1
      partsLeft -= partsOf(item) + 1
      if (bytesLeft < 0 || partsLeft < 0) return (head + items.join(',') + tail).padEnd(bytes)
      items.push(item)
    }
  }
}

function partsOf(text: string): number {
  return text.length - text.replace(/[[{,:]/g, '').length
}

function filled(part: string, head: string, tail: string): HostileBody['make'] {
  return bytes => head + part.repeat(Math.floor((bytes - head.length - tail.length) / part.length)) + tail
}

const inMetadata = (part: string): HostileBody['make'] => list(part, '[{"name":"a","metadata":{"a":[', ']}}]')

export const hostileBodies: readonly HostileBody[] = [
  { name: 'objects', make: list('{}') },
  { name: 'arrays', make: list('[]') },
  { name: 'numbers', make: list('1') },
  { name: 'texts', make: list('""') },
  { name: 'one text', make: filled('x', '{"email":"', '","password":""}') },
  { name: 'one name', make: filled('x', '[{"name":"', '"}]') },
  { name: 'escapes', make: filled('\\u0041', '["', '"]') },
  { name: 'objects beside an escape', make: list('{}', '["\\u0041",') },
  { name: 'keys', make: list(nth => `"k${nth}":0`, '{', '}') },
  { name: 'long keys', make: list(nth => `"${'k'.repeat(1000)}${nth}":0`, '{', '}') },
  { name: 'escaped keys', make: list(nth => `"\\n${nth}":0`, '{', '}') },
  { name: 'keys of many objects', make: list(nth => `{"k${nth}":0}`) },
  {
    name: 'nesting',
    make: (bytes, partsMax) => {
      const depth = Math.min(Math.floor(bytes / 2), partsMax)
      return `${'['.repeat(depth)}${']'.repeat(depth)}`.padEnd(bytes)
    },
  },
  { name: 'nesting of 60, often', make: list(`${'['.repeat(60)}${']'.repeat(60)}`) },
  { name: 'unknown keys of a thing', make: list(nth => `"k${nth}":0`, '[{"name":"a",', '}]') },
  { name: 'unknown keys of many things', make: list(nth => `{"a${nth}":0,"b":0,"c":0,"d":0}`) },
  { name: 'a thousand wrong things', make: list(`{"name":1,"metadata":1,"a":"${'x'.repeat(1020)}"}`) },
  { name: 'objects in metadata', make: inMetadata('{}') },
  { name: 'numbers in metadata', make: inMetadata('1') },
  { name: 'small numbers in metadata', make: inMetadata('1e-9') },
  { name: 'texts in metadata', make: inMetadata('""') },
  { name: 'keys in metadata', make: list(nth => `"k${nth}":0`, '[{"name":"a","metadata":{', '}}]') },
  { name: 'escaped keys in metadata', make: list(nth => `"\\n${nth}":0`, '[{"name":"a","metadata":{', '}}]') },
  { name: 'ids that are objects', make: list('{}', '{"channel_ids":[', '],"thing_ids":[1]}') },
  { name: 'ids that are none', make: list('""', '{"channel_ids":[', '],"thing_ids":[]}') },
  { name: 'a list without an end', make: list('{}', '[', '') },
  { name: 'a text without an end', make: filled('\\u0041', '["', '') },
  { name: 'lines without a value', make: filled('\n', '[', '') },
]
