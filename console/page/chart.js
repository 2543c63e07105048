// Charts of uPlot that fit their place, in the colours of the page.

import { html } from 'htm/preact'
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'

/** @typedef {(css: string) => string} Resolve what a colour such as `var(--accent)` is now, as a canvas understands it */

/**
 * Draws into `target` until it is closed, again when the theme or the width changes.
 *
 * @param {HTMLElement} target
 * @param {number} height in pixels
 * @param {(color: Resolve) => Pick<import('uplot').Options, 'series' | 'scales' | 'cursor' | 'bands' | 'hooks'>} optionsOf
 * @param {() => import('uplot').AlignedData} dataOf
 */
export function openPlot(target, height, optionsOf, dataOf) {
  /** @type {uPlot | undefined} */
  let plot
  const open = () => {
    plot?.destroy()
    // uPlot draws on a canvas, which knows no variables: an element says what they are now.
    const probe = target.appendChild(document.createElement('i'))
    /** @type {Resolve} */
    const color = css => {
      probe.style.color = css
      return getComputedStyle(probe).color
    }
    const axis = {
      stroke: color('var(--quiet)'),
      grid: { stroke: color('var(--line)'), width: 1 },
      ticks: { stroke: color('var(--line)') },
    }
    const size = { width: target.clientWidth, height }
    const options = { ...size, legend: { show: false }, axes: [axis, { ...axis, size: 56 }], ...optionsOf(color) }
    probe.remove()
    plot = new uPlot(options, dataOf(), target)
  }
  open()
  const resized = new ResizeObserver(() => target.clientWidth > 0 && plot?.setSize({ width: target.clientWidth, height }))
  resized.observe(target)
  const theme = matchMedia('(prefers-color-scheme: dark)')
  theme.addEventListener('change', open)
  return {
    draw: () => plot?.setData(dataOf()),
    close: () => {
      resized.disconnect()
      theme.removeEventListener('change', open)
      plot?.destroy()
    },
  }
}

/**
 * @param {{
 *   label: string, data: import('uplot').AlignedData, height?: number,
 *   series: readonly { name: string, color: '--accent' | '--waiting' | '--bad', dash?: number[] }[],
 * }} props `data`: seconds since 1970, then the values of each series; `label` says for screen readers what the chart shows
 */
export function Chart({ label, data, series, height = 160 }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null))
  const plot = useRef(/** @type {ReturnType<typeof openPlot> | undefined} */ (undefined))
  const latest = useRef(data)
  latest.current = data
  useEffect(() => {
    if (place.current === null) return undefined
    const range = { min: { pad: 0, soft: 0, mode: /** @type {const} */ (1) }, max: { pad: 0.1, soft: 1, mode: /** @type {const} */ (1) } }
    /** @param {Resolve} color */
    const optionsOf = color => ({
      cursor: { show: false },
      scales: { y: { range } },
      series: [
        {},
        ...series.map(({ name, color: of, dash }) => ({
          label: name,
          stroke: color(`var(${of})`),
          width: 2,
          points: { show: false },
          ...(dash && { dash }),
        })),
      ],
    })
    plot.current = openPlot(place.current, height, optionsOf, () => latest.current)
    return plot.current.close
  }, [])
  useEffect(() => plot.current?.draw(), [data])
  return html`<div>
    <div class="legend" aria-hidden="true">
      ${series.map(({ name, color, dash }) => html`<span class=${`key ${color.slice(2)} ${dash ? 'dashed' : ''}`}>${name}</span>`)}
    </div>
    <div ref=${place} role="img" aria-label=${label}></div>
  </div>`
}
