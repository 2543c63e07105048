// Compiles time layouts. A layout shows how the reference time Mon Jan 2 15:04:05.000 2006, seven hours west of UTC, is written in that format.
//
//   year 2006 06 · month January Jan 01 1 · day 02 2 _2 · day of the year 002 __2 · weekday Monday Mon
//   hour 15, or 03 3 with PM pm · minute 04 4 · second 05 5 · fraction .000 ,000 .999 ,999
//   offset -0700 -07:00 -07 -070000 -07:00:00, the same with Z instead of the minus if UTC is written as Z · abbreviation MST
//
// All other text is literal. This is the notation of Go's package time, which configuration files use.

/** The part that a step of a layout reads. */
export const Step = {
  literal: 0,
  space: 1,
  longYear: 2,
  shortYear: 3,
  longMonth: 4,
  shortMonth: 5,
  month: 6,
  paddedMonth: 7,
  longWeekday: 8,
  shortWeekday: 9,
  day: 10,
  spacedDay: 11,
  paddedDay: 12,
  spacedYearDay: 13,
  paddedYearDay: 14,
  hour: 15,
  hour12: 16,
  paddedHour12: 17,
  minute: 18,
  paddedMinute: 19,
  second: 20,
  paddedSecond: 21,
  fraction: 22,
  upperMeridiem: 23,
  lowerMeridiem: 24,
  abbreviation: 25,
  offset: 26,
  offsetOrZ: 27,
} as const
export type Step = (typeof Step)[keyof typeof Step]

export interface LayoutStep {
  readonly step: Step
  /** For a literal its text, for an offset its form. */
  readonly text: string
}

/** A compiled layout, with the parts of a time that it contains. */
export interface Layout {
  readonly steps: readonly LayoutStep[]
  readonly hasYear: boolean
  /** A month or a day, of the month or of the year. */
  readonly hasDate: boolean
  readonly hasOffset: boolean
}

/** In the order in which they are tried: an element comes before those that are its prefix. */
const elements: readonly (readonly [text: string, step: Step])[] = [
  ['January', Step.longMonth],
  ['Jan', Step.shortMonth],
  ['Monday', Step.longWeekday],
  ['Mon', Step.shortWeekday],
  ['MST', Step.abbreviation],
  ['01', Step.paddedMonth],
  ['02', Step.paddedDay],
  ['03', Step.paddedHour12],
  ['04', Step.paddedMinute],
  ['05', Step.paddedSecond],
  ['06', Step.shortYear],
  ['002', Step.paddedYearDay],
  ['15', Step.hour],
  ['1', Step.month],
  ['2006', Step.longYear],
  ['2', Step.day],
  ['__2', Step.spacedYearDay],
  ['_2', Step.spacedDay],
  ['3', Step.hour12],
  ['4', Step.minute],
  ['5', Step.second],
  ['PM', Step.upperMeridiem],
  ['pm', Step.lowerMeridiem],
  ...['070000', '07:00:00', '0700', '07:00', '07'].flatMap(
    form =>
      [
        [`-${form}`, Step.offset],
        [`Z${form}`, Step.offsetOrZ],
      ] as const,
  ),
]

const namedLayouts: Readonly<Record<string, string>> = {
  ansic: 'Mon Jan _2 15:04:05 2006',
  unixdate: 'Mon Jan _2 15:04:05 MST 2006',
  rubydate: 'Mon Jan 02 15:04:05 -0700 2006',
  rfc822: '02 Jan 06 15:04 MST',
  rfc822z: '02 Jan 06 15:04 -0700',
  rfc850: 'Monday, 02-Jan-06 15:04:05 MST',
  rfc1123: 'Mon, 02 Jan 2006 15:04:05 MST',
  rfc1123z: 'Mon, 02 Jan 2006 15:04:05 -0700',
  stamp: 'Jan _2 15:04:05',
  stampmilli: 'Jan _2 15:04:05.000',
  stampmicro: 'Jan _2 15:04:05.000000',
  stampnano: 'Jan _2 15:04:05.000000000',
}

export const layoutNames: readonly string[] = Object.keys(namedLayouts)

/**
 * Compiles a layout: a named one in any case, or one in the notation above.
 *
 * @throws RangeError for a text without a year, a month with a day, a day of the year, and an hour: it is not a layout
 */
export function compileLayout(format: string): Layout {
  const name = format.toLowerCase()
  const steps = stepsOf(Object.hasOwn(namedLayouts, name) ? namedLayouts[name]! : format)
  const has = (...wanted: Step[]): boolean => steps.some(({ step }) => wanted.includes(step))
  const hasYear = has(Step.longYear, Step.shortYear)
  const hasMonth = has(Step.longMonth, Step.shortMonth, Step.month, Step.paddedMonth)
  const hasDay = has(Step.day, Step.spacedDay, Step.paddedDay)
  const hasYearDay = has(Step.spacedYearDay, Step.paddedYearDay)
  if (!hasYear && !(hasMonth && hasDay) && !hasYearDay && !has(Step.hour, Step.hour12, Step.paddedHour12)) {
    throw new RangeError(`${JSON.stringify(format)} is not a time format`)
  }
  return { steps, hasYear, hasDate: hasMonth || hasDay || hasYearDay, hasOffset: has(Step.offset, Step.offsetOrZ) }
}

function stepsOf(layout: string): LayoutStep[] {
  const steps: LayoutStep[] = []
  let literal = ''
  const endLiteral = (): void => {
    // Several spaces match one or more, so they are a separate step.
    for (const text of literal.match(/ +|[^ ]+/g) ?? []) steps.push({ step: text[0] === ' ' ? Step.space : Step.literal, text })
    literal = ''
  }
  for (let at = 0; at < layout.length; ) {
    const element = elementAt(layout, at)
    if (element === undefined) {
      literal += layout[at++]!
      continue
    }
    endLiteral()
    // Seconds read a following fraction anyway, so it needs no step.
    const taken = element.step === Step.fraction && (steps.at(-1)?.step === Step.second || steps.at(-1)?.step === Step.paddedSecond)
    if (!taken) steps.push(element)
    at += element.text.length
  }
  endLiteral()
  return steps
}

function elementAt(layout: string, at: number): LayoutStep | undefined {
  const fraction = /[.,](?:0+|9+)(?!\d)/y
  fraction.lastIndex = at
  const digits = fraction.exec(layout)
  if (digits !== null) return { step: Step.fraction, text: digits[0] }
  const found = elements.find(([text]) => layout.startsWith(text, at) && !isBeginningOfOther(text, layout, at))
  return found && { step: found[1], text: found[0] }
}

/** `Jan` in `Janus` is not a month and `Mon` in `Month` not a weekday; `_2006` is a literal `_` and a year. */
function isBeginningOfOther(text: string, layout: string, at: number): boolean {
  if (text === '_2') return layout.startsWith('2006', at + 1)
  return (text === 'Jan' || text === 'Mon') && /[a-z]/.test(layout.charAt(at + text.length))
}
