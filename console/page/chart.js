// A chart of uPlot that fits its place, in the colours of the page.

import uPlot from 'uplot'
import { rough } from './elements.js'
import { html, useEffect, useRef } from './hooks.js'

/** Seconds since 1970; `text`: what a span of it is. @typedef {{ from: number, to: number, text?: string }} Range */
/** `color`: in CSS, such as `var(--accent)`. @typedef {{ label?: import('./elements.js').Children, color: string, isDashed?: boolean }} Line */

/** A line with fewer points shows each. */
const markedMax = 60
/** Pixels between labels of times, which are as wide as a day; and signs of a unit. */
const [timeSpace, unitMax] = [96, 30]

/**
 * @param {{
 *   label: string, range: Range, data: import('uplot').AlignedData, series: readonly Line[], height?: number, isCount?: boolean,
 *   unit?: string, onZoom?: (range: Range) => void,
 * }} props `label` says for screen readers what the chart shows; `data`: times, then the values of each series; `isCount`: from 0 on, else smallest and largest values in turn
 */
export function Chart({ label, range, data, series, height = 160, isCount = false, unit, onZoom }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null))
  const plot = useRef(/** @type {uPlot | undefined} */ (undefined))
  const legend = useRef(/** @type {HTMLUListElement | null} */ (null))
  const shown = useRef(range)
  shown.current = range
  useEffect(() => {
    const { current: target } = place
    if (target === null) return undefined
    // A canvas knows no variables: an element says what they are at the moment, with each drawing.
    const color = (/** @type {string} */ css) => () => {
      target.style.color = css
      return getComputedStyle(target).color
    }
    const axis = {
      stroke: color('var(--quiet)'),
      font: `12px ${getComputedStyle(target).fontFamily}`,
      grid: { stroke: color('var(--line)'), width: 1 },
      ticks: { stroke: color('var(--line)') },
    }
    const line = (/** @type {Line} */ { color: css, isDashed = false }) => ({
      stroke: color(css),
      width: 1.5,
      dash: isDashed ? [8, 3] : [],
      points: {
        show: (/** @type {uPlot} */ { data }, /** @type {number} */ at) =>
          !isCount && (data[at] ?? []).filter(Number.isFinite).length < markedMax,
      },
    })
    const opened = new uPlot(
      {
        width: target.clientWidth,
        height,
        legend: { show: false },
        axes: [
          { ...axis, space: timeSpace, values: timeLabels },
          { ...axis, size: 56, ...(unit && { label: unit.slice(0, unitMax), labelSize: 18, labelFont: axis.font }) },
        ],
        bands: series.flatMap(({ color: css }, at) =>
          isCount || at % 2 === 0 ? [] : [{ series: [at + 1, at], fill: color(`color-mix(in srgb, ${css} 25%, transparent)`) }],
        ),
        cursor: { sync: { key: 'time' }, y: false, points: { show: false }, drag: { x: onZoom !== undefined, y: false, setScale: false } },
        scales: {
          x: { range: () => [shown.current.from, shown.current.to] },
          y: { range: (_, low, high) => (isCount ? [0, Math.max(1, high * 1.1)] : paddedRange(low, high)) },
        },
        series: [{}, ...series.map(line)],
        hooks: { setSelect: [zoom], setCursor: [tell] },
      },
      data,
      target,
    )
    plot.current = opened
    const resized = new ResizeObserver(() => opened.setSize({ width: target.clientWidth, height }))
    resized.observe(target)
    return () => (resized.disconnect(), opened.destroy())
  }, [])
  useEffect(() => plot.current?.setData(data), [data])

  /** @param {uPlot} plot */
  function zoom(plot) {
    const { left, width } = plot.select
    if (width < 2) return
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
    onZoom?.({ from: plot.posToVal(left, 'x'), to: plot.posToVal(left + width, 'x') })
  }

  /** Says in the legend what each line has at the cursor, or before it. @param {uPlot} plot */
  function tell({ cursor: { idx }, data }) {
    const labelled = series.flatMap(({ label }, at) => (label ? [Array.from(data[at + 1] ?? [])] : []))
    for (const [nth, output] of legend.current?.querySelectorAll('output').entries() ?? []) {
      const value = labelled[nth]?.slice(0, (idx ?? -1) + 1).findLast(Number.isFinite)
      output.textContent = typeof value === 'number' ? rough(value, 6) : ''
    }
  }

  return html`<div ref=${place} role="img" aria-label=${label} style=${{ minHeight: `${height}px` }}></div>
    <ul ref=${legend} class="row plain legend">
      ${series.map(line => line.label && html`<li>${swatch(line)} ${line.label} <output></output></li>`)}
    </ul>`
}

/** Spans of a range as a band. @param {{ label: string, range: Range, spans: readonly Range[] }} props */
export function Bands({ label, range: { from, to }, spans }) {
  const across = (/** @type {number} */ at) => (100 * (Math.max(from, at) - from)) / (to - from)
  const fillOf = (/** @type {string | undefined} */ text) =>
    text === undefined ? 'var(--bad)' : text === 'false' ? 'none' : 'var(--accent)'
  // One of a moment is seen, too, and so is where one text follows another.
  const band = (/** @type {Range} */ one, /** @type {number} */ nth) =>
    html`<rect x=${across(one.from)} width=${Math.max(0.3, across(one.to) - across(one.from))} height="1" fill=${fillOf(one.text)} opacity=${one.text && nth % 2 ? 0.6 : 1}><title>${one.text}</title></rect>`
  return html`<svg class="bands" viewBox="0 0 100 1" preserveAspectRatio="none" role="img" aria-label=${label}>${spans.map(band)}</svg>`
}

/** How a line looks. @param {Line} line */
export const swatch = ({ color, isDashed }) => html`<span aria-hidden="true" style=${{ color }}>${isDashed ? '┅' : '━'}</span>`

const [toDay, toMinute, toSecond] = [
  { day: 'numeric', month: 'short', year: 'numeric' },
  { hour: '2-digit', minute: '2-digit' },
  { hour: '2-digit', minute: '2-digit', second: '2-digit' },
].map(options => new Intl.DateTimeFormat('en-GB', /** @type {Intl.DateTimeFormatOptions} */ (options)))

/** Times on an axis, the day only where it changes. @param {unknown} _ @param {number[]} splits @param {number} _axis @param {number} _space @param {number} step */
function timeLabels(_, splits, _axis, _space, step) {
  let before = ''
  return splits.map(seconds => {
    const day = toDay?.format(seconds * 1000) ?? ''
    const lines = step < 86_400 ? [(step < 60 ? toSecond : toMinute)?.format(seconds * 1000)] : []
    if (day !== before) lines.push(day)
    before = day
    return lines.join('\n')
  })
}

/** Wide enough that ticks differ from each other as doubles. @param {number | null} low @param {number | null} high @returns {[number, number]} */
function paddedRange(low, high) {
  if (low === null || high === null) return [0, 1]
  const pad = Math.max((high - low) * 0.05, Math.abs(low) * 1e-6, Math.abs(high) * 1e-6, 1e-9)
  return [low - pad, high + pad]
}
