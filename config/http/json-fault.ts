// Where a text stops being JSON: the engine's own message names no position for most faults.

const space = /[ \t\n\r]*/y
const plain = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y

/** What may stand next: `first` values and keys may be missing, as in `[]` and `{}`. */
type Expected = 'value' | 'first-value' | 'key' | 'first-key' | 'colon' | 'more'

/**
 * The offset of the first character that cannot stand where it stands (RFC 8259), the text's length where it ends too early, or
 * undefined where the text is JSON. Uses no recursion: depth comes from a hostile sender.
 */
export function jsonFaultOffset(text: string): number | undefined {
  const open: ('[' | '{')[] = []
  let expected: Expected = 'value'
  let at = skip(space, text, 0)
  while (at < text.length) {
    const character = text[at]!
    if (expected === 'colon') {
      if (character !== ':') return at
      expected = 'value'
      at++
    } else if (expected === 'more') {
      const inside = open.at(-1)
      if (inside === undefined) return at
      if (character === ',') expected = inside === '[' ? 'value' : 'key'
      else if (character === (inside === '[' ? ']' : '}')) open.pop()
      else return at
      at++
    } else if ((expected === 'first-value' && character === ']') || (expected === 'first-key' && character === '}')) {
      open.pop()
      expected = 'more'
      at++
    } else if (expected === 'key' || expected === 'first-key') {
      if (character !== '"') return at
      const end = stringEnd(text, at)
      if (end < 0) return ~end
      expected = 'colon'
      at = end
    } else if (character === '[' || character === '{') {
      open.push(character)
      expected = character === '[' ? 'first-value' : 'first-key'
      at++
    } else {
      const end = character === '"' ? stringEnd(text, at) : skip(plain, text, at)
      if (end < 0) return ~end
      if (end === at) return at
      expected = 'more'
      at = end
    }
    at = skip(space, text, at)
  }
  return expected === 'more' && open.length === 0 ? undefined : text.length
}

function skip(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex : at
}

/** The offset behind the closing quote of the string that begins at `at`; the complement (~) of the offset at fault. */
function stringEnd(text: string, at: number): number {
  for (let index = at + 1; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code === 0x22) return index + 1
    if (code < 0x20) return ~index
    if (code !== 0x5c) continue
    index++
    const escape = text[index]
    if (escape === 'u') {
      if (!/^[0-9a-fA-F]{4}$/.test(text.slice(index + 1, index + 5))) return ~index
      index += 4
    } else if (escape === undefined || !'"\\/bfnrt'.includes(escape)) {
      return ~Math.min(index, text.length)
    }
  }
  return ~text.length
}
